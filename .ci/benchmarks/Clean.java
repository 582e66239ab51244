import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka's log cleaner on partition directories, one after the other in one process: Clean MEMORY DIRECTORY..., or its
 *  map of offsets alone: Clean keys COUNT. Prints the processor's seconds of the last. */
public class Clean {
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] words) throws Exception {
        double seconds = 0;
        if (words[0].equals("keys")) {
            for (int round = 0; round < 3; round++) seconds = put(Integer.parseInt(words[1]));
        } else {
            for (int i = 1; i < words.length; i++) seconds = clean(new File(words[i]), Integer.parseInt(words[0]));
        }
        System.out.printf("%.4f%n", seconds);
        System.exit(0);
    }

    private static double put(int count) throws Exception {
        SkimpyOffsetMap map = new SkimpyOffsetMap(40 * count);
        byte[][] keys = new byte[count][];
        for (int i = 0; i < count; i++) keys[i] = String.format("key-%012d", i).getBytes();
        long begin = SYSTEM.getProcessCpuTime();
        for (int i = 0; i < count; i++) map.put(ByteBuffer.wrap(keys[i]), i);
        return (SYSTEM.getProcessCpuTime() - begin) / 1e9;
    }

    private static double clean(File directory, int memory) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        LogConfig config = new LogConfig(Map.of("cleanup.policy", "compact"));
        UnifiedLog log = UnifiedLog.create(directory, config, 0L, Long.MAX_VALUE, scheduler, new BrokerTopicStats(),
            Time.SYSTEM, 900000, new ProducerStateManagerConfig(86400000, false), 600000, new LogDirFailureChannel(1),
            true, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        Throttler throttler = new Throttler(Double.MAX_VALUE, 300, "none", "bytes", Time.SYSTEM);
        long begin = SYSTEM.getProcessCpuTime();
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(memory), 262144, 1048588, 0.9, throttler, Time.SYSTEM,
            partition -> { });
        cleaner.doClean(new LogToClean(log, 0, log.activeSegment().baseOffset(), true), System.currentTimeMillis());
        return (SYSTEM.getProcessCpuTime() - begin) / 1e9;
    }
}
