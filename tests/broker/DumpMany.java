import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;

/**
 * Runs DumpLogSegments once for each line of standard input, which holds its arguments between tabs, and writes to the
 * file args[0] for each run: int32 length and bytes of what it printed, int32 length and text of what it threw.
 */
public class DumpMany {
    public static void main(String[] args) throws IOException {
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, false, StandardCharsets.UTF_8)); // once: Scala's Console keeps the first
        BufferedReader runs = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (DataOutputStream results = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(args[0])))) {
            for (String line = runs.readLine(); line != null; line = runs.readLine()) {
                printed.reset();
                String thrown = run(line.split("\t"));
                put(results, printed.toByteArray());
                put(results, thrown.getBytes(StandardCharsets.UTF_8));
            }
        }
    }

    private static String run(String[] arguments) {
        try {
            tool().getMethod("main", String[].class).invoke(null, (Object) arguments);
            return "";
        } catch (InvocationTargetException thrown) {
            return thrown.getCause().toString();
        } catch (Throwable thrown) {
            return thrown.toString();
        } finally {
            System.out.flush();
        }
    }

    /** The tool is in another package since 4.2. */
    private static Class<?> tool() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.tools.DumpLogSegments");
        } catch (ClassNotFoundException e) {
            return Class.forName("kafka.tools.DumpLogSegments");
        }
    }

    private static void put(DataOutputStream results, byte[] bytes) throws IOException {
        results.writeInt(bytes.length);
        results.write(bytes);
    }
}
