import java.io.File;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Recovers the segment of base offset 0 in the folder args[0], args[1] times, and leaves its indexes there; prints the
 * seconds of the best round and the processor's seconds of the cheapest.
 */
public class Recover {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        LogConfig settings = new LogConfig(Map.of("segment.index.bytes", "67108864"));
        TopicPartition partition = new TopicPartition("topic", 0);
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long best = Long.MAX_VALUE;
        long cheapest = Long.MAX_VALUE;
        for (int round = 0; round < Integer.parseInt(arguments[1]); round++) {
            File state = Files.createTempDirectory("recover").toFile();
            var producers = new ProducerStateManager(partition, state, 900_000,
                new ProducerStateManagerConfig(86_400_000, true), Time.SYSTEM);
            var file = new LeaderEpochCheckpointFile(new File(state, "epochs"), new LogDirFailureChannel(1));
            var epochs = new LeaderEpochFileCache(partition, file, scheduler);
            LogSegment segment = LogSegment.open(folder, 0, settings, Time.SYSTEM, true, 0, false, "");
            long start = System.nanoTime();
            long spent = system.getProcessCpuTime();
            int cut = segment.recover(producers, epochs);
            best = Math.min(best, System.nanoTime() - start);
            cheapest = Math.min(cheapest, system.getProcessCpuTime() - spent);
            segment.close();
            for (File left : state.listFiles()) {
                left.delete();
            }
            state.delete();
            if (cut != 0) {
                throw new IllegalStateException(cut + " bytes were cut");
            }
        }
        scheduler.shutdown();
        System.out.println(best / 1e9 + " " + cheapest / 1e9);
    }
}
