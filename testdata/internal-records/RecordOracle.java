package org.apache.kafka.tools;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;

/**
 * Asks Kafka 4.4.0's own DumpLogSegments what it prints for single records.
 * In: lines "DECODER KEY VALUE" (hex, "-" null, "=" empty). Out: lines "KEYTEXT PAYLOADTEXT" (base64, "-" not printed),
 * or "! EXCEPTION" where the tool would stop.
 */
public class RecordOracle {
    private static final Map<String, String> PARSERS = Map.of(
        "offsets", "OffsetsMessageParser",
        "transaction-log", "TransactionLogMessageParser",
        "cluster-metadata", "ClusterMetadataLogMessageParser",
        "remote-log-metadata", "RemoteMetadataLogMessageParser",
        "share-group-state", "ShareGroupStateMessageParser");

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            out.println(answer(words[0], record(bytes(words[1]), bytes(words[2]))));
        }
        out.flush();
    }

    private static String answer(String decoder, Record record) throws Exception {
        try {
            return decoder.equals("control") ? "- " + control(record) : decoded(decoder, record);
        } catch (InvocationTargetException e) {
            return "! " + text(String.valueOf(e.getCause()));
        } catch (RuntimeException e) {
            return "! " + text(String.valueOf(e));
        }
    }

    private static String decoded(String decoder, Record record) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.tools.DumpLogSegments$" + PARSERS.get(decoder));
        Constructor<?> constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
        DumpLogSegments.MessageParser<?, ?> parser = (DumpLogSegments.MessageParser<?, ?>) constructor.newInstance();
        DumpLogSegments.ParseResult<?, ?> result = parser.parse(record);
        return optional(result.key()) + " " + optional(result.value());
    }

    private static String control(Record record) throws Exception {
        Method print = DumpLogSegments.class.getDeclaredMethod("printControlRecord", Record.class);
        print.setAccessible(true);
        PrintStream real = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            print.invoke(null, record);
        } finally {
            System.setOut(real);
        }
        return text(printed.toString(StandardCharsets.UTF_8));
    }

    private static Record record(byte[] key, byte[] value) {
        return MemoryRecords.withRecords(Compression.NONE, new SimpleRecord(1L, key, value)).records().iterator().next();
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : word.equals("=") ? new byte[0] : HexFormat.of().parseHex(word);
    }

    private static String optional(Optional<?> text) {
        return text.isPresent() ? text(text.get().toString()) : "-";
    }

    private static String text(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
