package kseg.spark;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
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
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Lets scans of kseg read only the columns that a query needs. Spark (4.3) has no such rule for sources in Python.
 *
 * A scan is replaced by one with a smaller schema, as if the user had given it. It is planned by a source of its own:
 * Spark keeps the plan of a read, with its filters, in the source, which all queries of a DataFrame share.
 *
 * Janino compiles this file without generics (kseg/spark/pruning.py).
 */
public class ColumnPruning extends Rule {
    private static final String NAME = "kseg";
    /** Metadata of a table in a catalog, in one of its columns (kseg/spark/schemas.py). */
    private static final String TABLE_OPTIONS = "kseg.options";

    private final Field filtersOfScan = accessible(PythonScan.class, "supportedFilters");
    private final Field sourceOfScan = accessible(PythonScan.class, "ds");
    private final Field sourceOfTable = accessible(PythonTable.class, "ds");
    private final Field sourceInPython = accessible(PythonDataSourceV2.class, "dataSourceInPython");

    public TreeNode apply(TreeNode plan) {
        return pruned((LogicalPlan) plan, null);
    }

    /** needed: the columns of a scan that its parents use; null: all. */
    private LogicalPlan pruned(LogicalPlan plan, AttributeSet needed) {
        if (plan instanceof DataSourceV2ScanRelation) {
            DataSourceV2ScanRelation found = (DataSourceV2ScanRelation) plan;
            return isOurs(found) ? scanOf(found, needed) : found;
        }
        final AttributeSet below;
        if (plan instanceof Project) {
            below = plan.references();
        } else if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.Filter && needed != null) {
            below = needed.$plus$plus(plan.references());
        } else {
            below = null;
        }
        return (LogicalPlan) plan.mapChildren(new scala.runtime.AbstractFunction1() {
            public Object apply(Object child) {
                return ColumnPruning.this.pruned((LogicalPlan) child, below);
            }
        });
    }

    private boolean isOurs(DataSourceV2ScanRelation found) {
        return found.scan() instanceof PythonScan && found.relation().table() instanceof PythonTable
            && found.relation().table().name().equalsIgnoreCase(NAME);
    }

    private DataSourceV2ScanRelation scanOf(DataSourceV2ScanRelation found, AttributeSet needed) {
        DataSourceV2Relation relation = found.relation();
        Object shared = get(sourceOfTable, relation.table());
        Filter[] filters = (Filter[]) get(filtersOfScan, found.scan());
        StructType all = found.scan().readSchema();
        List kept = columns(found, needed, filters);
        boolean sharesFilters = SQLConf.get().pythonFilterPushDown() && get(sourceOfScan, found.scan()) == shared;
        if (kept.size() == all.length() && !sharesFilters) {
            return found;
        }
        StructType schema = schemaOf(all, kept);
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName(NAME);
        set(sourceInPython, source, get(sourceInPython, shared));
        ScanBuilder builder = new PythonTable(source, NAME, schema).newScanBuilder(relation.options());
        if (filters.length > 0 && ((SupportsPushDownFilters) builder).pushFilters(filters).length > 0) {
            throw new IllegalStateException("a filter is refused, once taken: " + Arrays.toString(filters));
        }
        List output = new ArrayList();
        for (int k = 0; k < kept.size(); k++) {
            output.add(found.output().apply(((Integer) kept.get(k)).intValue()));
        }
        return copyOf(found, builder, output);
    }

    /** Returns the numbers of the columns to read. */
    private List columns(DataSourceV2ScanRelation found, AttributeSet needed, Filter[] filters) {
        Set filtered = new HashSet();
        for (int k = 0; k < filters.length; k++) {
            filtered.addAll(Arrays.asList((Object[]) filters[k].references()));
        }
        List kept = new ArrayList();
        int least = 0;
        for (int k = 0; k < found.output().size(); k++) {
            Attribute column = (Attribute) found.output().apply(k);
            if (needed == null || needed.contains(column) || filtered.contains(column.name())) {
                kept.add(Integer.valueOf(k));
            }
            if (column.name().equals("partition") || (column.name().equals("offset") && least == 0)) {
                least = k;
            }
        }
        if (kept.isEmpty()) {
            kept.add(Integer.valueOf(least)); // count(): the number of rows, by batch headers
        }
        return kept;
    }

    private StructType schemaOf(StructType all, List kept) {
        StructType schema = new StructType();
        for (int k = 0; k < kept.size(); k++) {
            schema = schema.add(all.fields()[((Integer) kept.get(k)).intValue()]);
        }
        for (int k = 0; k < all.length(); k++) {
            StructField from = all.fields()[k];
            if (from.metadata().contains(TABLE_OPTIONS)) {
                StructField to = schema.fields()[0];
                schema.fields()[0] = new StructField(to.name(), to.dataType(), to.nullable(), from.metadata());
            }
        }
        return schema;
    }

    private DataSourceV2ScanRelation copyOf(DataSourceV2ScanRelation found, ScanBuilder builder, List output) {
        Object[] fields = new Object[found.productArity()]; // releases of Spark differ in their number
        for (int k = 0; k < fields.length; k++) {
            fields[k] = found.productElement(k);
        }
        fields[1] = builder.build();
        fields[2] = scala.jdk.javaapi.CollectionConverters.asScala(output).toList();
        return (DataSourceV2ScanRelation) found.makeCopy(fields);
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

    private static Object get(Field field, Object owner) {
        try {
            return field.get(owner);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error.toString());
        }
    }

    private static void set(Field field, Object owner, Object value) {
        try {
            field.set(owner, value);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error.toString());
        }
    }
}
