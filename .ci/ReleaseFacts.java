import java.io.File;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarFile;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Facts of the release on the class path, by reflection: lines "KIND NAME VALUE" with tabs in between, sorted.
 *
 * schema: the fields of each version of each generated message of internal topics, control records and side files;
 * record: numbers of record types; setting: types and defaults of the settings of topics, and of the broker's own on
 * logs.
 */
public class ReleaseFacts {
    private static final String KAFKA = "org/apache/kafka/";
    private static final String CONTROL = KAFKA + "common/message/";
    private static final List<String> SETTINGS = List.of(
        "org.apache.kafka.storage.internals.log.LogConfig", "org.apache.kafka.server.config.AbstractKafkaConfig",
        "kafka.server.KafkaConfig");

    private final List<String> lines = new ArrayList<>();

    private void add(String kind, String name, Object value) {
        lines.add(kind + "\t" + name + "\t" + String.valueOf(value).replaceAll("\\s+", " "));
    }

    private void schemas(String name, Class<?> type) throws IllegalAccessException, NoSuchFieldException {
        Field field = type.getField("SCHEMAS");
        Schema[] schemas = (Schema[]) field.get(null);
        for (int version = 0; version < schemas.length; version++) {
            if (schemas[version] != null) {
                add("schema", type.getSimpleName() + " v" + version, text(schemas[version]));
            }
        }
        try {
            add("record", type.getSimpleName(), "apiKey " + type.getMethod("apiKey").invoke(
                type.getConstructor().newInstance()));
        } catch (ReflectiveOperationException e) {
            return;
        }
    }

    private static String text(Schema schema) {
        List<String> fields = new ArrayList<>();
        for (BoundField field : schema.fields()) {
            fields.add(field.def.type instanceof TaggedFields ? tags((TaggedFields) field.def.type)
                : field.def.name + ":" + text(field.def.type));
        }
        return "{" + String.join(", ", fields) + "}";
    }

    private static String tags(TaggedFields tagged) {
        List<String> fields = new ArrayList<>();
        new TreeMap<>(tagged.fields()).forEach(
            (tag, field) -> fields.add("tag" + tag + " " + field.name + ":" + text(field.type)));
        return "[" + String.join(", ", fields) + "]";
    }

    private static String text(Type type) {
        if (type instanceof Schema) {
            return text((Schema) type);
        }
        String nullable = type.isNullable() ? "?" : "";
        return type.arrayElementType().map(element -> "[]" + text(element)).orElse(type.toString()) + nullable;
    }

    private void enums(String name, Class<?> type) throws ReflectiveOperationException {
        for (Object each : type.getEnumConstants()) {
            List<String> numbers = new ArrayList<>();
            for (Method method : type.getMethods()) {
                boolean isNumber = method.getReturnType() == short.class || method.getReturnType() == byte.class;
                if (isNumber && method.getParameterCount() == 0 && !Modifier.isStatic(method.getModifiers())) {
                    numbers.add(method.getName() + " " + method.invoke(each));
                }
            }
            Collections.sort(numbers);
            add("record", type.getSimpleName() + " " + each, numbers);
        }
    }

    private void classes(String jar) throws Exception {
        try (JarFile file = new JarFile(jar)) {
            for (String path : (Iterable<String>) file.stream().map(Object::toString)::iterator) {
                String name = path.replace('/', '.').replaceAll("\\.class$", "");
                boolean isGenerated = path.startsWith(KAFKA) && path.contains("/generated/");
                if (!path.endsWith(".class") || path.contains("$")) {
                    continue;
                }
                boolean isRecord = path.startsWith(CONTROL) && !path.matches(".*(Request|Response)Data.class");
                if (isGenerated || isRecord || path.endsWith("/MetadataRecordType.class")) {
                    Class<?> type = Class.forName(name);
                    if (type.isEnum() && name.endsWith("RecordType")) {
                        enums(name, type);
                    } else if (hasSchemas(type)) {
                        schemas(name, type);
                    }
                } else if (path.endsWith("server/common/MetadataVersion.class")) {
                    for (Object each : Class.forName(name).getEnumConstants()) {
                        add("record", "metadata.version", each);
                    }
                }
            }
        }
    }

    private static boolean hasSchemas(Class<?> type) {
        for (Field field : type.getFields()) {
            if (field.getName().equals("SCHEMAS")) {
                return true;
            }
        }
        return false;
    }

    private void settings(String name) throws Exception {
        Class<?> type;
        try {
            type = Class.forName(name);
        } catch (ClassNotFoundException e) {
            return;
        }
        boolean isTopic = name.endsWith(".LogConfig");
        for (Field field : type.getDeclaredFields()) {
            if (ConfigDef.class.isAssignableFrom(field.getType()) && Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                for (ConfigDef.ConfigKey key : ((ConfigDef) field.get(null)).configKeys().values()) {
                    if (isTopic || key.name.matches("(log|metadata|remote|message|max\\.dec|producer\\.id|trans).*")) {
                        add("setting", (isTopic ? "topic " : "broker ") + key.name, key.type + " " + key.defaultValue);
                    }
                }
            }
        }
    }

    public static void main(String[] none) throws Exception {
        ReleaseFacts facts = new ReleaseFacts();
        for (String jar : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (jar.matches(".*/(kafka[-_][^/]*)\\.jar")) {
                facts.classes(jar);
            }
        }
        for (String name : SETTINGS) {
            facts.settings(name);
        }
        Collections.sort(facts.lines);
        new PrintStream(System.out, true, StandardCharsets.UTF_8).println(String.join("\n", facts.lines));
    }
}
