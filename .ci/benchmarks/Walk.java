import java.nio.channels.FileChannel;
import java.nio.file.Path;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;

/** Checks the CRC and walks the records of every batch of a mapped segment; prints the seconds of the best round. */
public class Walk {
    public static void main(String[] arguments) throws Exception {
        BufferSupplier buffers = BufferSupplier.create();
        long best = Long.MAX_VALUE;
        long records = 0;
        for (int round = 0; round < Integer.parseInt(arguments[1]); round++) {
            long start = System.nanoTime();
            try (FileChannel channel = FileChannel.open(Path.of(arguments[0]))) {
                records = walk(MemoryRecords.readableRecords(
                    channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size())), buffers);
            }
            best = Math.min(best, System.nanoTime() - start);
        }
        System.out.println(best / 1e9 + " " + records);
    }

    private static long walk(MemoryRecords segment, BufferSupplier buffers) {
        long records = 0;
        for (MutableRecordBatch batch : segment.batches()) {
            batch.ensureValid();
            try (var iterator = ((DefaultRecordBatch) batch).skipKeyValueIterator(buffers)) {
                for (; iterator.hasNext(); iterator.next()) {
                    records++;
                }
            }
        }
        return records;
    }
}
