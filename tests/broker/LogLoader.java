import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * What a broker's start makes of partitions, without the broker: each line of standard input names one, its log start
 * offset, its recovery point, 1 if the stop before was clean, the clock in ms and index.interval.bytes, with tabs in
 * between. The answer is "taken" or "refused: " and why; the partition is closed again as in a clean stop.
 *
 * The loader of 3.x is in another package and language than that of 4.x: it is found by name, its arguments by type.
 */
public class LogLoader {
    private static final List<String> PLACES =
        List.of("org.apache.kafka.storage.internals.log.UnifiedLog#create", "kafka.log.UnifiedLog#apply");
    private static final int INDEX_BYTES = 65536;
    private static final int DAY_MS = 86_400_000;

    private final KafkaScheduler scheduler = new KafkaScheduler(1);
    private final Method load;

    LogLoader() throws Exception {
        load = loadMethod();
        scheduler.startup();
    }

    private static Method loadMethod() throws Exception {
        for (String place : PLACES) {
            String[] parts = place.split("#");
            try {
                for (Method method : Class.forName(parts[0]).getMethods()) {
                    if (method.getName().equals(parts[1]) && method.getParameterCount() >= 16) {
                        return method;
                    }
                }
            } catch (ClassNotFoundException e) {
                continue;
            }
        }
        throw new ClassNotFoundException("UnifiedLog");
    }

    private static Time clockAt(long now) {
        ClassLoader classes = LogLoader.class.getClassLoader();
        return (Time) Proxy.newProxyInstance(classes, new Class<?>[] {Time.class}, (self, method, args) ->
            method.getName().equals("milliseconds") ? now : method.invoke(Time.SYSTEM, args));
    }

    private Object argument(Class<?> type, Map<Class<?>, Queue<?>> numbers, Map<Class<?>, Object> others)
            throws Exception {
        if (type.isPrimitive()) {
            return numbers.get(type).remove();
        }
        if (type.getName().equals("scala.Option")) {
            return type.getMethod("empty").invoke(null);
        }
        if (type.getSimpleName().equals("BrokerTopicStats")) {
            Class<?>[] wanted = isScala() ? new Class<?>[] {boolean.class} : new Class<?>[0];
            return type.getConstructor(wanted).newInstance(isScala() ? new Object[] {false} : new Object[0]);
        }
        for (Map.Entry<Class<?>, Object> each : others.entrySet()) {
            if (type.isAssignableFrom(each.getKey())) {
                return each.getValue();
            }
        }
        throw new IllegalStateException("nothing for " + type);
    }

    private String load(String[] words) throws Exception {
        boolean isClean = words[3].equals("1");
        Map<String, String> settings = Map.of("retention.ms", "-1", "segment.index.bytes", "" + INDEX_BYTES,
            "file.delete.delay.ms", "" + DAY_MS, "max.message.bytes", "8388608", "index.interval.bytes", words[5]);
        Map<Class<?>, Object> others = Map.of(File.class, new File(words[0]), LogConfig.class, new LogConfig(settings),
            KafkaScheduler.class, scheduler, Time.class, clockAt(Long.parseLong(words[4])),
            ProducerStateManagerConfig.class, new ProducerStateManagerConfig(DAY_MS, false),
            LogDirFailureChannel.class, new LogDirFailureChannel(10), Optional.class, Optional.empty(),
            ConcurrentHashMap.class, new ConcurrentHashMap<>(),
            LogOffsetsListener.class, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        Map<Class<?>, Queue<?>> numbers = Map.of(
            long.class, new ArrayDeque<>(List.of(Long.parseLong(words[1]), Long.parseLong(words[2]))),
            int.class, new ArrayDeque<>(List.of(900_000, 600_000)),
            // After the stop: in 3.x whether partition.metadata is kept; whether there is remote storage.
            boolean.class, new ArrayDeque<>(isScala() ? List.of(isClean, true, false) : List.of(isClean, false)));
        Object[] arguments = new Object[load.getParameterCount()];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = argument(load.getParameterTypes()[i], numbers, others);
        }
        try {
            Object log = load.invoke(null, arguments);
            stop(log);
            return "taken";
        } catch (InvocationTargetException e) {
            return "refused: " + e.getCause().toString().replaceAll("\\s+", " ");
        }
    }

    /** Closes a log as a clean stop does: since 4.4 LogManager.shutdown ends the active segment, before close did. */
    private static void stop(Object log) throws ReflectiveOperationException {
        try {
            log.getClass().getMethod("prepareActiveSegmentForClose").invoke(log);
            log.getClass().getMethod("flush", boolean.class).invoke(log, true);
        } catch (NoSuchMethodException e) {
            // An older release.
        }
        log.getClass().getMethod("close").invoke(log);
    }

    private boolean isScala() {
        return load.getDeclaringClass().getName().startsWith("kafka.");
    }

    public static void main(String[] none) throws Exception {
        LogLoader loader = new LogLoader();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer = loader.load(line.split("\t"));
            loader.scheduler.scheduleOnce("wait", () -> { }).get(); // until what the load left to others is written
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0);
    }
}
