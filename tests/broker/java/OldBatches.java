import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;

import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;

/**
 * Writes random message sets v0 with the classes of Kafka 0.8.2 or 0.9, in their own framings.
 *
 * <pre>
 *   SEED COUNT FILE   COUNT cases, each int32 size and a message set, as RandomBatches reads them
 * </pre>
 */
public final class OldBatches {
    private OldBatches() {
    }

    public static void main(String[] args) throws IOException {
        Random random = new Random(Long.parseLong(args[0]));
        CompressionType[] codecs =
            {CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4};
        long nextOffset = 0;
        try (DataOutputStream out = new DataOutputStream(Files.newOutputStream(Path.of(args[2])))) {
            for (int i = 0; i < Integer.parseInt(args[1]); i++) {
                CompressionType codec = codecs[random.nextInt(codecs.length)];
                MemoryRecords records = MemoryRecords.emptyRecords(ByteBuffer.allocate(1 << 20), codec);
                for (int left = random.nextInt(20); left >= 0; left--) {
                    records.append(nextOffset++, randomBytes(random), randomBytes(random));
                }
                records.close();
                ByteBuffer buffer = records.buffer().duplicate();
                if (buffer.position() > 0) {
                    buffer.flip();
                }
                if (codec != CompressionType.NONE) {
                    buffer.putLong(0, nextOffset - 1);  // a broker gives the wrapper the last offset
                }
                byte[] bytes = new byte[buffer.remaining()];
                buffer.get(bytes);
                out.writeInt(bytes.length);
                out.write(bytes);
            }
        }
    }

    private static byte[] randomBytes(Random random) {
        if (random.nextInt(10) == 0) {
            return null;
        }
        byte[] bytes = new byte[random.nextInt(random.nextInt(100) == 0 ? 70_000 : 100)];
        if (random.nextBoolean()) {
            random.nextBytes(bytes);
        } else {
            Arrays.fill(bytes, (byte) random.nextInt());
        }
        return bytes;
    }
}
