import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/** An application that counts the records of a topic by key, in RocksDB with a changelog.
 *
 * Arguments: the brokers, the folder of its state, the guarantee. Once it runs, each line on standard input is answered
 * by a line: "counts" by the counts in its store, "restored" by the number of records restored so far. It closes at the
 * end of its input.
 */
public class StreamsCounts {
    static long restored = 0;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "counting");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[2]);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put("auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("visits").groupByKey().count(Materialized.as("counts"));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setGlobalStateRestoreListener(new StateRestoreListener() {
            public void onRestoreStart(TopicPartition partition, String store, long start, long end) {}
            public void onRestoreEnd(TopicPartition partition, String store, long total) {}
            public synchronized void onBatchRestored(TopicPartition partition, String store, long end, long count) {
                restored += count;
            }
        });
        streams.start();
        while (streams.state() != KafkaStreams.State.RUNNING) {
            if (streams.state() == KafkaStreams.State.ERROR) {
                System.exit(1);
            }
            Thread.sleep(20);
        }
        System.out.println("running");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(line.equals("restored") ? restored : counts(streams));
        }
        streams.close(Duration.ofSeconds(30));
    }

    static String counts(KafkaStreams streams) {
        var found = new TreeMap<String, Long>();
        var store = streams.store(StoreQueryParameters.fromNameAndType(
            "counts", QueryableStoreTypes.<String, Long>keyValueStore()));
        try (var rows = store.all()) {
            rows.forEachRemaining(row -> found.put(row.key, row.value));
        }
        return found.toString();
    }
}
