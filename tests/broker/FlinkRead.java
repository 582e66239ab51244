import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Prints the values of a topic, as Flink's source reads them to the end: FlinkRead ADDRESS TOPIC. */
public class FlinkRead {
    public static void main(String[] words) throws Exception {
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(words[0])
            .setTopics(words[1])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        var here = StreamExecutionEnvironment.createLocalEnvironment(1);
        here.fromSource(source, WatermarkStrategy.noWatermarks(), "logs").executeAndCollect()
            .forEachRemaining(System.out::println);
        System.exit(0);
    }
}
