import java.lang.reflect.Method;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.common.metadata.MetadataRecordType;

/**
 * What the release on the class path takes of a metadata log, by reflection, as lines with tabs in between:
 *
 * feature NAME LOWEST HIGHEST; version LEVEL NAME; record APIKEY LOWEST HIGHEST; control TYPE
 */
public class ReleaseLevels {
    private static Object features() throws ReflectiveOperationException {
        Class<?> type = Class.forName("org.apache.kafka.controller.QuorumFeatures");
        for (Method method : type.getMethods()) {
            if (method.getName().matches("default(Supported)?FeatureMap")) {
                return method.getParameterCount() == 0 ? method.invoke(null) : method.invoke(null, false);
            }
        }
        throw new NoSuchMethodException("the map of features");
    }

    private static String range(Object range) throws ReflectiveOperationException {
        return range.getClass().getMethod("min").invoke(range) + "\t" + range.getClass().getMethod("max").invoke(range);
    }

    private static Class<?> controlTypes() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.record.internal.ControlRecordType");
        } catch (ClassNotFoundException e) {
            return Class.forName("org.apache.kafka.common.record.ControlRecordType");
        }
    }

    public static void main(String[] none) throws Exception {
        for (Map.Entry<?, ?> feature : new TreeMap<>((Map<?, ?>) features()).entrySet()) {
            System.out.println("feature\t" + feature.getKey() + "\t" + range(feature.getValue()));
        }
        Class<?> versions = Class.forName("org.apache.kafka.server.common.MetadataVersion");
        for (Object version : versions.getEnumConstants()) {
            System.out.println("version\t" + versions.getMethod("featureLevel").invoke(version) + "\t" + version);
        }
        for (MetadataRecordType type : MetadataRecordType.values()) {
            System.out.println(
                "record\t" + type.id() + "\t" + type.lowestSupportedVersion() + "\t" + type.highestSupportedVersion());
        }
        for (Object type : controlTypes().getEnumConstants()) {
            System.out.println("control\t" + type);
        }
    }
}
