import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An ordinary client of brokers. Each line of standard input is a command and its arguments between tabs, the first of
 * which is the broker's address; the answer is some lines and an empty one, or one that begins with "error".
 */
public class Client {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static PrintStream out;

    public static void main(String[] arguments) throws Exception {
        out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            try {
                run(line.split("\t"));
            } catch (Exception failure) {
                out.println("error " + failure.toString().replace('\n', ' '));
            }
            out.println();
            out.flush();
        }
    }

    private static void run(String[] words) throws Exception {
        switch (words[0]) {
            case "await" -> await(words[1]);
            case "create" -> create(words[1], words[2], Integer.parseInt(words[3]), words);
            case "delete" -> delete(words[1], words[2]);
            case "replicas" -> replicas(words[1], words[2]);
            case "produce" -> produce(words);
            case "consume" -> consume(words[1], new TopicPartition(words[2], Integer.parseInt(words[3])), words[4]);
            case "at" -> at(words[1], new TopicPartition(words[2], Integer.parseInt(words[3])), words);
            case "group" -> group(words[1], words[2], words[3], Integer.parseInt(words[4]), words[5]);
            case "times" -> times(words[1], new TopicPartition(words[2], Integer.parseInt(words[3])), words);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    /** Returns when the broker answers and each partition of each topic has a leader. */
    private static void await(String address) throws Exception {
        try (Admin admin = Admin.create(settings(address))) {
            for (long end = System.nanoTime() + PATIENCE.toNanos(); ; Thread.sleep(50)) {
                boolean isReady = !admin.describeCluster().nodes().get().isEmpty();
                for (TopicDescription topic
                        : admin.describeTopics(admin.listTopics().names().get()).allTopicNames().get().values()) {
                    isReady &= topic.partitions().stream().allMatch(one -> one.leader() != null &&
                        !one.leader().isEmpty());
                }
                if (isReady) {
                    return;
                }
                if (System.nanoTime() > end) {
                    throw new IllegalStateException("a partition has no leader");
                }
            }
        }
    }

    /** create ADDRESS TOPIC PARTITIONS [NAME=VALUE...]; the setting "replicas" is their number, 1 by default. */
    private static void create(String address, String name, int partitions, String[] words) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (int i = 4; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        try (Admin admin = Admin.create(settings(address))) {
            String replicas = settings.remove("replicas");
            var count = Optional.ofNullable(replicas).map(Short::valueOf); // else default.replication.factor
            var topic = new NewTopic(name, Optional.of(partitions), count);
            admin.createTopics(List.of(topic.configs(settings))).all().get();
        }
    }

    /** replicas ADDRESS TOPIC: the leader of partition 0, and the replicas in sync, each in a line. */
    private static void replicas(String address, String name) throws Exception {
        try (Admin admin = Admin.create(settings(address))) {
            var found = admin.describeTopics(List.of(name)).allTopicNames().get().get(name).partitions().get(0);
            out.println(found.leader() == null ? -1 : found.leader().id());
            found.isr().forEach(node -> out.println(node.id()));
        }
    }

    private static void delete(String address, String name) throws Exception {
        try (Admin admin = Admin.create(settings(address))) {
            admin.deleteTopics(List.of(name)).all().get();
        }
    }

    /** produce ADDRESS TOPIC CODEC FIRST COUNT [TRANSACTIONAL-ID commit|abort]: record n has timestamp T + 1000 n. */
    private static void produce(String[] words) throws Exception {
        Properties settings = settings(words[1]);
        settings.put("compression.type", words[3]);
        settings.put("batch.size", "1000");
        settings.put("linger.ms", "20");
        settings.put("enable.idempotence", words.length > 6 ? "true" : "false");
        if (words.length > 6) {
            settings.put("transactional.id", words[6]);
        }
        int first = Integer.parseInt(words[4]);
        Random random = new Random(first);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            if (words.length > 6) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (int n = first; n < first + Integer.parseInt(words[5]); n++) {
                String value = "v" + n + "-" + Long.toString(random.nextLong(), 36).repeat(random.nextInt(20));
                String key = n % 7 == 0 ? null : "k" + n;
                producer.send(new ProducerRecord<>(words[2], 0, 1_700_000_000_000L + 1000L * n, key, value));
            }
            producer.flush();
            if (words.length > 6 && words[7].equals("commit")) {
                producer.commitTransaction();
            } else if (words.length > 6) {
                producer.abortTransaction();
            }
        }
    }

    /** consume ADDRESS TOPIC PARTITION ISOLATION: every record from the beginning on, as JSON Lines. */
    private static void consume(String address, TopicPartition partition, String isolation) {
        try (var consumer = consumer(address, isolation)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    print(record);
                }
                if (System.nanoTime() > until) {
                    throw new IllegalStateException("stands still at " + consumer.position(partition) + " of " + end);
                }
            }
        }
    }

    /** group ADDRESS GROUP TOPIC COUNT ISOLATION: the next records for a member of a group, which commits them. */
    private static void group(String address, String group, String topic, int count, String isolation) {
        Properties settings = consumerSettings(address, isolation);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "1");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            int left = count;
            for (long until = System.nanoTime() + PATIENCE.toNanos(); left > 0; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    print(record);
                    left--;
                }
                if (System.nanoTime() > until) {
                    throw new IllegalStateException("the group waits for " + left + " of " + count + " records");
                }
            }
            consumer.commitSync();
        }
    }

    /** at ADDRESS TOPIC PARTITION OFFSET...: of each the first record that a fetch from there gives. */
    private static void at(String address, TopicPartition partition, String[] words) {
        try (var consumer = consumer(address, "read_uncommitted")) {
            consumer.assign(List.of(partition));
            for (int i = 4; i < words.length; i++) {
                consumer.seek(partition, Long.parseLong(words[i]));
                long until = System.nanoTime() + PATIENCE.toNanos();
                var found = consumer.poll(Duration.ofMillis(200));
                while (found.isEmpty() && System.nanoTime() < until) {
                    found = consumer.poll(Duration.ofMillis(200));
                }
                print(found.iterator().next());
            }
        }
    }

    /** times ADDRESS TOPIC PARTITION TIMESTAMP...: of each the first offset that is not older, or -1. */
    private static void times(String address, TopicPartition partition, String[] words) {
        try (var consumer = consumer(address, "read_uncommitted")) {
            for (int i = 4; i < words.length; i++) {
                var found = consumer.offsetsForTimes(Map.of(partition, Long.parseLong(words[i]))).get(partition);
                out.println(found == null ? -1 : found.offset());
            }
        }
    }

    private static Properties settings(String address) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("default.api.timeout.ms", Long.toString(PATIENCE.toMillis()));
        return settings;
    }

    private static Properties consumerSettings(String address, String isolation) {
        Properties settings = settings(address);
        settings.put("isolation.level", isolation);
        settings.put("auto.offset.reset", "none");
        settings.put("fetch.max.wait.ms", "10");
        settings.put("check.crcs", "true");
        return settings;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String address, String isolation) {
        Properties settings = consumerSettings(address, isolation);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void print(ConsumerRecord<byte[], byte[]> record) {
        out.println("{\"offset\":" + record.offset() + ",\"timestamp\":" + record.timestamp()
            + ",\"key\":" + quoted(record.key()) + ",\"value\":" + quoted(record.value()) + "}");
    }

    private static String quoted(byte[] bytes) {
        return bytes == null ? "null" : "\"" + Base64.getEncoder().encodeToString(bytes) + "\"";
    }
}
