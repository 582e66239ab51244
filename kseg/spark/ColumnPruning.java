package kseg.spark;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Lets scans of kseg read only the columns that a query needs, and count(*) batch headers. Spark (4.3) has no such rule
 * for sources in Python.
 *
 * A scan is replaced by one with a smaller schema, as if the user had given it. It is planned by a source of its own:
 * Spark keeps the plan of a read, with its filters, in the source, which all queries of a DataFrame share.
 *
 * Janino compiles this file without generics (kseg/spark/session.py).
 */
public class ColumnPruning extends Rule {
    private static final String NAME = "kseg";
    /** Metadata of a table in a catalog, in one of its columns (kseg/spark/modes.py). */
    private static final String TABLE_OPTIONS = "kseg.options";

    private final Field filtersOfScan = accessible(PythonScan.class, "supportedFilters");
    private final Field sourceOfScan = accessible(PythonScan.class, "ds");
    private final Field sourceOfTable = accessible(PythonTable.class, "ds");
    private final Field sourceInPython = accessible(PythonDataSourceV2.class, "dataSourceInPython");

    public TreeNode apply(TreeNode plan) {
        try {
            return pruned((LogicalPlan) plan, null);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error.toString());
        }
    }

    /** needed: the columns of a scan that its parents use; null: all. */
    private LogicalPlan pruned(LogicalPlan plan, AttributeSet needed) throws IllegalAccessException {
        if (plan instanceof DataSourceV2ScanRelation) {
            DataSourceV2ScanRelation found = (DataSourceV2ScanRelation) plan;
            return isOurs(found) ? scanOf(found, needed) : found;
        }
        if (plan instanceof Aggregate) {
            DataSourceV2ScanRelation counted = counted((Aggregate) plan);
            if (counted != null) {
                return sumOfCounts((Aggregate) plan, counted);
            }
        }
        AttributeSet below = null;
        if (plan instanceof Project) {
            below = plan.references();
        } else if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.Filter && needed != null) {
            below = needed.$plus$plus(plan.references());
        }
        Object[] children = new Object[plan.children().size()];
        for (int k = 0; k < children.length; k++) {
            children[k] = pruned((LogicalPlan) plan.children().apply(k), below);
        }
        return (LogicalPlan) plan.withNewChildren(listOf(children));
    }

    /** Returns the scan whose records a query only counts, completely and without groups; null: it does more. */
    private DataSourceV2ScanRelation counted(Aggregate plan) throws IllegalAccessException {
        LogicalPlan child = plan.child();
        if (child instanceof Project && ((Project) child).projectList().isEmpty()) {
            child = ((Project) child).child();
        }
        if (!plan.groupingExpressions().isEmpty() || !(child instanceof DataSourceV2ScanRelation)) {
            return null;
        }
        DataSourceV2ScanRelation found = (DataSourceV2ScanRelation) child;
        boolean isCount = isOurs(found) && plan.references().isEmpty() && isOfRecords(found);
        for (int k = 0; k < plan.aggregateExpressions().size(); k++) {
            isCount = isCount && isCount((Expression) plan.aggregateExpressions().apply(k));
        }
        return isCount ? found : null;
    }

    private boolean isOfRecords(DataSourceV2ScanRelation found) throws IllegalAccessException {
        for (StructField field : found.scan().readSchema().fields()) {
            if (field.metadata().contains(TABLE_OPTIONS)) {
                return false; // the mode of a table is not in the options of the scan
            }
        }
        Object mode = found.relation().options().getOrDefault("mode", "records");
        return "records".equalsIgnoreCase((String) mode) && ((Filter[]) filtersOfScan.get(found.scan())).length == 0;
    }

    /** Whether an output of an aggregate is count(*): of a literal, neither distinct nor filtered. */
    private boolean isCount(Expression output) {
        if (output.children().size() != 1 || !(output.children().apply(0) instanceof AggregateExpression)) {
            return false;
        }
        AggregateExpression found = (AggregateExpression) output.children().apply(0);
        if (!(found.aggregateFunction() instanceof Count) || found.isDistinct() || found.filter().isDefined()) {
            return false;
        }
        Expression counted = (Expression) found.aggregateFunction().children().apply(0);
        return found.aggregateFunction().children().size() == 1 && counted instanceof Literal && !counted.nullable();
    }

    /** Mode counts has a row for each task of a segment; without tasks there is none, and the sum is null. */
    private LogicalPlan sumOfCounts(Aggregate plan, DataSourceV2ScanRelation found) throws IllegalAccessException {
        Map options = new HashMap(found.relation().options()); // all names in lower case
        options.put("mode", "counts");
        StructType schema = new StructType().add("count", DataTypes.LongType, true);
        PythonTable table = new PythonTable(sourceOf(null), NAME, schema);
        ScanBuilder builder = table.newScanBuilder(new CaseInsensitiveStringMap(options));
        ExprId id = NamedExpression$.MODULE$.newExprId();
        AttributeReference count = new AttributeReference(
            "count", DataTypes.LongType, true, Metadata.empty(), id, listOf(new Object[0]));
        Expression sum = new Sum(count).toAggregateExpression();
        Expression total = new Coalesce(listOf(new Object[] {sum, new Literal(Long.valueOf(0), DataTypes.LongType)}));
        List outputs = new ArrayList();
        for (int k = 0; k < plan.aggregateExpressions().size(); k++) {
            Expression output = (Expression) plan.aggregateExpressions().apply(k);
            outputs.add(output.withNewChildren(listOf(new Object[] {total})));
        }
        Object[] fields = fieldsOf(plan);
        fields[1] = listOf(outputs.toArray());
        fields[2] = copyOf(found, builder, new Object[] {count});
        return (LogicalPlan) plan.makeCopy(fields);
    }

    private boolean isOurs(DataSourceV2ScanRelation found) {
        return found.scan() instanceof PythonScan && found.relation().table() instanceof PythonTable
            && found.relation().table().name().equalsIgnoreCase(NAME);
    }

    private DataSourceV2ScanRelation scanOf(DataSourceV2ScanRelation found, AttributeSet needed)
            throws IllegalAccessException {
        DataSourceV2Relation relation = found.relation();
        Object shared = sourceOfTable.get(relation.table());
        Filter[] filters = (Filter[]) filtersOfScan.get(found.scan());
        StructType all = found.scan().readSchema();
        List kept = columns(found, needed, filters);
        boolean sharesFilters = SQLConf.get().pythonFilterPushDown() && sourceOfScan.get(found.scan()) == shared;
        if (kept.size() == all.length() && !sharesFilters) {
            return found;
        }
        StructType schema = schemaOf(all, kept);
        PythonTable table = new PythonTable(sourceOf(sourceInPython.get(shared)), NAME, schema);
        ScanBuilder builder = table.newScanBuilder(relation.options());
        if (filters.length > 0 && ((SupportsPushDownFilters) builder).pushFilters(filters).length > 0) {
            throw new IllegalStateException("a filter is refused, once taken: " + Arrays.toString(filters));
        }
        return copyOf(found, builder, kept.toArray());
    }

    /** inPython: what Python has made of the same options; null: nothing yet. */
    private PythonDataSourceV2 sourceOf(Object inPython) throws IllegalAccessException {
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName(NAME);
        sourceInPython.set(source, inPython);
        return source;
    }

    /** Returns the columns to read, at least one. */
    private List columns(DataSourceV2ScanRelation found, AttributeSet needed, Filter[] filters) {
        Set filtered = new HashSet();
        for (Filter filter : filters) {
            filtered.addAll(Arrays.asList((Object[]) filter.references()));
        }
        List kept = new ArrayList();
        Attribute first = (Attribute) found.output().apply(0);
        Attribute least = first;
        for (int k = 0; k < found.output().size(); k++) {
            Attribute column = (Attribute) found.output().apply(k);
            if (needed == null || needed.contains(column) || filtered.contains(column.name())) {
                kept.add(column);
            }
            if (column.name().equals("partition") || (column.name().equals("offset") && least == first)) {
                least = column;
            }
        }
        if (kept.isEmpty()) {
            kept.add(least); // count(): the number of rows, by batch headers
        }
        return kept;
    }

    private StructType schemaOf(StructType all, List kept) {
        StructType schema = new StructType();
        for (Object column : kept) {
            schema = schema.add(all.apply(((Attribute) column).name()));
        }
        for (StructField from : all.fields()) {
            if (from.metadata().contains(TABLE_OPTIONS)) {
                StructField to = schema.fields()[0];
                schema.fields()[0] = new StructField(to.name(), to.dataType(), to.nullable(), from.metadata());
            }
        }
        return schema;
    }

    private DataSourceV2ScanRelation copyOf(DataSourceV2ScanRelation found, ScanBuilder builder, Object[] output) {
        Object[] fields = fieldsOf(found);
        fields[1] = builder.build();
        fields[2] = listOf(output);
        return (DataSourceV2ScanRelation) found.makeCopy(fields);
    }

    /** Returns the arguments of a node's constructor: releases of Spark differ in their number. */
    private static Object[] fieldsOf(LogicalPlan plan) {
        Object[] fields = new Object[plan.productArity()];
        for (int k = 0; k < fields.length; k++) {
            fields[k] = plan.productElement(k);
        }
        return fields;
    }

    private static scala.collection.immutable.List listOf(Object[] items) {
        return scala.jdk.javaapi.CollectionConverters.asScala(Arrays.asList(items)).toList();
    }

    private static Field accessible(Class owner, String name) {
        try {
            Field field = owner.getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException error) {
            throw new IllegalStateException(owner.getName() + " has no field " + name);
        }
    }
}
