import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.tools.DumpLogSegments;

/**
 * Runs DumpLogSegments once for each line of standard input, which holds its arguments between tabs, and writes to the
 * file args[0] for each run: int32 length and bytes of what it printed, int32 length and text of what it threw.
 */
public class DumpMany {
    public static void main(String[] args) throws IOException {
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        BufferedReader runs = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (DataOutputStream results = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(args[0])))) {
            for (String line = runs.readLine(); line != null; line = runs.readLine()) {
                ByteArrayOutputStream printed = new ByteArrayOutputStream();
                String thrown = run(line.split("\t"), printed);
                put(results, printed.toByteArray());
                put(results, thrown.getBytes(StandardCharsets.UTF_8));
            }
        }
    }

    private static String run(String[] arguments, ByteArrayOutputStream printed) {
        System.setOut(new PrintStream(printed, false, StandardCharsets.UTF_8));
        try {
            DumpLogSegments.main(arguments);
            return "";
        } catch (Throwable thrown) {
            return thrown.toString();
        } finally {
            System.out.flush();
        }
    }

    private static void put(DataOutputStream results, byte[] bytes) throws IOException {
        results.writeInt(bytes.length);
        results.write(bytes);
    }
}
