import com.github.luben.zstd.Zstd;

import net.jpountz.lz4.LZ4FrameOutputStream;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.LegacyRecord;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.Utils;
import org.xerial.snappy.Snappy;
import org.xerial.snappy.SnappyOutputStream;

import java.io.BufferedOutputStream;
import java.io.BufferedWriter;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Random;
import java.util.zip.GZIPOutputStream;

/**
 * Writes random record batches with Kafka's own builders, and shows what Kafka's own reader sees.
 *
 * <pre>
 *   write SEED COUNT FILE   COUNT random cases, each int32 size and some batches of all formats
 *   dump FILE OUT           for every case of such a file, one JSON line a batch, then one at its end
 * </pre>
 */
public final class RandomBatches {
    private static final TimestampType[] TYPES = {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME};
    private static final long NOW = 1_700_000_000_000L;

    private final Random random;
    private long nextOffset;

    private RandomBatches(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] args) throws IOException {
        if (args[0].equals("write")) {
            new RandomBatches(Long.parseLong(args[1])).write(Integer.parseInt(args[2]), Path.of(args[3]));
        } else {
            dump(Path.of(args[1]), Path.of(args[2]));
        }
    }

    // ---- writing

    private void write(int count, Path file) throws IOException {
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file)))) {
            for (int i = 0; i < count; i++) {
                ByteBuffer batches = someBatches();
                out.writeInt(batches.remaining());
                out.write(Utils.toArray(batches));
            }
        }
    }

    private ByteBuffer someBatches() throws IOException {
        int kind = random.nextInt(12);
        if (kind == 0) {
            return marker();
        } else if (kind == 1) {
            return empty();
        } else if (kind <= 3) {
            return compacted();
        } else if (kind == 4) {
            return foreign();
        }
        return batch((byte) random.nextInt(3));
    }

    private ByteBuffer batch(byte magic) {
        CompressionType codec = CompressionType.forId(random.nextInt(magic == 2 ? 5 : 4));
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TYPES[random.nextInt(2)];
        boolean hasProducer = magic == 2 && random.nextInt(3) == 0;
        boolean isTransactional = hasProducer && random.nextBoolean();
        if (random.nextInt(20) == 0) {
            nextOffset += 1L << random.nextInt(36);
        }
        ByteBufferOutputStream out = new ByteBufferOutputStream(4096);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            out, magic, Compression.of(codec).build(), type, nextOffset,
            type == TimestampType.LOG_APPEND_TIME ? NOW + random.nextInt(1_000_000) : RecordBatch.NO_TIMESTAMP,
            hasProducer ? randomLong() : RecordBatch.NO_PRODUCER_ID,
            hasProducer ? (short) random.nextInt(Short.MAX_VALUE) : RecordBatch.NO_PRODUCER_EPOCH,
            hasProducer ? random.nextInt(Integer.MAX_VALUE) : RecordBatch.NO_SEQUENCE,
            isTransactional, false,
            magic == 2 && random.nextInt(5) > 0 ? random.nextInt(100) : RecordBatch.NO_PARTITION_LEADER_EPOCH,
            Integer.MAX_VALUE,
            magic == 2 && random.nextInt(6) == 0 ? NOW + randomLong() % 1_000_000 : RecordBatch.NO_TIMESTAMP);
        appendRandomRecords(builder, magic);
        return builder.build().buffer();
    }

    private void appendRandomRecords(MemoryRecordsBuilder builder, byte magic) {
        int count = 1 + (random.nextInt(10) == 0 ? random.nextInt(300) : random.nextInt(8));
        boolean hasGaps = random.nextInt(4) == 0;
        boolean hasTimestamps = magic > 0 && random.nextInt(10) > 0;
        for (int i = 0; i < count; i++) {
            long timestamp = hasTimestamps ? NOW + random.nextInt(200_000) - 100_000 : RecordBatch.NO_TIMESTAMP;
            if (hasTimestamps && random.nextInt(50) == 0) {
                timestamp = randomLong();
            }
            if (hasGaps) {
                nextOffset += random.nextInt(5) == 0 ? random.nextInt(100_000) : random.nextInt(3);
            }
            Header[] headers = magic == 2 && random.nextInt(4) == 0 ? randomHeaders() : Record.EMPTY_HEADERS;
            builder.appendWithOffset(nextOffset++, timestamp, randomBytes(), randomBytes(), headers);
        }
    }

    private ByteBuffer marker() {
        ControlRecordType type = random.nextBoolean() ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        return MemoryRecords.withEndTransactionMarker(
            nextOffset++, NOW + random.nextInt(1000), random.nextInt(50), randomLong(),
            (short) random.nextInt(Short.MAX_VALUE), new EndTransactionMarker(type, random.nextInt(100))).buffer();
    }

    private ByteBuffer empty() {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        long last = nextOffset + random.nextInt(1000);
        boolean hasProducer = random.nextInt(4) > 0;
        DefaultRecordBatch.writeEmptyHeader(
            buffer, RecordBatch.CURRENT_MAGIC_VALUE,
            hasProducer ? randomLong() : RecordBatch.NO_PRODUCER_ID,
            hasProducer ? (short) random.nextInt(100) : RecordBatch.NO_PRODUCER_EPOCH,
            hasProducer ? random.nextInt(1000) : RecordBatch.NO_SEQUENCE,
            nextOffset, last, random.nextInt(10), TYPES[random.nextInt(2)],
            random.nextBoolean() ? RecordBatch.NO_TIMESTAMP : NOW, hasProducer, hasProducer && random.nextBoolean());
        nextOffset = last + 1;
        buffer.flip();
        return buffer;
    }

    /** Some batches as the log cleaner leaves them: gaps, batches without records, delete horizons. */
    private ByteBuffer compacted() {
        byte magic = (byte) random.nextInt(3);
        ByteBuffer source = ByteBuffer.allocate(1 << 24);
        for (int i = random.nextInt(4); i >= 0; i--) {
            source.put(magic == 2 && random.nextInt(5) == 0 ? marker() : batch(magic));
        }
        source.flip();
        int kept = random.nextInt(101);
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(NOW, random.nextInt(100_000)) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                BatchRetention retention = batch.magic() == 2 && random.nextBoolean()
                    ? BatchRetention.RETAIN_EMPTY : BatchRetention.DELETE_EMPTY;
                return new BatchRetentionResult(retention, batch.isControlBatch() && random.nextBoolean());
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return random.nextInt(100) < kept;
            }
        };
        ByteBuffer target = ByteBuffer.allocate(1 << 24);
        MemoryRecords.FilterResult result =
            MemoryRecords.readableRecords(source).filterTo(filter, target, BufferSupplier.NO_CACHING);
        ByteBuffer out = result.outputBuffer();
        out.flip();
        return out;
    }

    /** Batches as clients in other languages, or no client at all, write them. */
    private ByteBuffer foreign() throws IOException {
        byte magic = (byte) random.nextInt(3);
        byte innerMagic = magic < 2 && random.nextInt(8) == 0 ? (byte) (1 - magic) : magic;
        long base = nextOffset;
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TYPES[random.nextInt(2)];
        TimestampType innerType = innerMagic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
        // old wrappers and some clients number the messages inside from 0
        boolean isRelative = innerMagic == 1 && random.nextBoolean();
        ByteBufferOutputStream plain = new ByteBufferOutputStream(4096);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            plain, innerMagic, Compression.NONE, innerType, isRelative ? 0 : base, RecordBatch.NO_TIMESTAMP,
            RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, false,
            RecordBatch.NO_PARTITION_LEADER_EPOCH, Integer.MAX_VALUE);
        int count = 1 + random.nextInt(20);
        for (int i = 0; i < count; i++) {
            builder.append(innerMagic == 0 ? -1L : NOW + i, randomBytes(), randomBytes());
        }
        byte[] written = Utils.toArray(builder.build().buffer());
        nextOffset += count;
        CompressionType codec = CompressionType.forId(1 + random.nextInt(magic == 2 ? 4 : 3));
        if (magic == 2) {
            byte[] body = foreignCompress(codec, Arrays.copyOfRange(written, 61, written.length));
            ByteBuffer out = ByteBuffer.allocate(61 + body.length);
            DefaultRecordBatch.writeHeader(
                out, base, count - 1, 61 + body.length, magic, codec, type, NOW, NOW + count - 1,
                RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, false,
                false, 3, count);
            // the checksum covers the body, which has to be there first
            out.position(61);
            out.put(body);
            out.position(0);
            DefaultRecordBatch.writeHeader(
                out, base, count - 1, 61 + body.length, magic, codec, type, NOW, NOW + count - 1,
                RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, false,
                false, 3, count);
            out.position(0);
            return out;
        }
        byte[] body = foreignCompress(codec, written);
        LegacyRecord wrapper = LegacyRecord.create(magic, magic == 0 ? -1L : NOW + 77, null, body, codec, type);
        ByteBuffer out = ByteBuffer.allocate(12 + wrapper.sizeInBytes());
        // some versions of librdkafka left 0 as the wrapper's offset
        out.putLong(isRelative && random.nextInt(4) == 0 ? 0 : nextOffset - 1);
        out.putInt(wrapper.sizeInBytes());
        out.put(wrapper.buffer().duplicate());
        out.flip();
        return out;
    }

    private byte[] foreignCompress(CompressionType codec, byte[] data) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        int middle = random.nextInt(data.length + 1);
        byte[][] halves = {Arrays.copyOf(data, middle), Arrays.copyOfRange(data, middle, data.length)};
        switch (codec) {
            case GZIP:
                for (byte[] part : random.nextBoolean() ? halves : new byte[][] {data}) {
                    try (OutputStream gzip = new GZIPOutputStream(out)) {
                        gzip.write(part);
                    }
                }
                if (random.nextInt(3) == 0) {
                    out.write(new byte[random.nextInt(19)]);
                }
                break;
            case SNAPPY:
                switch (random.nextInt(3)) {
                    case 0:
                        out.write(Snappy.compress(data));
                        break;
                    case 1:
                        for (byte[] part : halves) {
                            OutputStream snappy = new SnappyOutputStream(out);
                            snappy.write(part);
                            snappy.flush();
                        }
                        break;
                    default:
                        try (OutputStream snappy = new SnappyOutputStream(out, 1024 << random.nextInt(5))) {
                            snappy.write(data);
                        }
                }
                break;
            case LZ4:
                lz4(out, data);
                break;
            default:
                if (random.nextInt(3) == 0) {
                    out.write(new byte[] {0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 7, 7, 7});  // a skippable frame
                }
                for (byte[] part : random.nextBoolean() ? halves : new byte[][] {data}) {
                    out.write(Zstd.compress(part, 1 + random.nextInt(19)));
                }
        }
        return out.toByteArray();
    }

    private void lz4(ByteArrayOutputStream out, byte[] data) throws IOException {
        LZ4FrameOutputStream.BLOCKSIZE[] sizes = LZ4FrameOutputStream.BLOCKSIZE.values();
        LZ4FrameOutputStream.BLOCKSIZE size = sizes[random.nextInt(sizes.length)];
        LZ4FrameOutputStream.FLG.Bits independent = LZ4FrameOutputStream.FLG.Bits.BLOCK_INDEPENDENCE;
        LZ4FrameOutputStream frame;
        switch (random.nextInt(4)) {
            case 0:
                frame = new LZ4FrameOutputStream(
                    out, size, data.length, independent, LZ4FrameOutputStream.FLG.Bits.CONTENT_SIZE);
                break;
            case 1:
                frame = new LZ4FrameOutputStream(
                    out, size, independent, LZ4FrameOutputStream.FLG.Bits.CONTENT_CHECKSUM);
                break;
            case 2:
                frame = new LZ4FrameOutputStream(
                    out, size, data.length, independent, LZ4FrameOutputStream.FLG.Bits.BLOCK_CHECKSUM,
                    LZ4FrameOutputStream.FLG.Bits.CONTENT_CHECKSUM, LZ4FrameOutputStream.FLG.Bits.CONTENT_SIZE);
                break;
            default:
                frame = new LZ4FrameOutputStream(out, size, independent);
        }
        int flushed = random.nextInt(data.length + 1);
        frame.write(data, 0, flushed);
        frame.flush();
        frame.write(data, flushed, data.length - flushed);
        frame.close();
        out.write(new byte[random.nextInt(3)]);  // Kafka's reader stops at the end mark
    }

    private long randomLong() {
        return random.nextLong() >>> (1 + random.nextInt(62));
    }

    private byte[] randomBytes() {
        int kind = random.nextInt(20);
        if (kind == 0) {
            return null;
        }
        byte[] bytes = new byte[kind == 1 ? 0 : kind == 2 ? random.nextInt(600) : random.nextInt(60)];
        if (random.nextInt(5000) == 0) {
            bytes = new byte[70_000 + random.nextInt(200_000)];
        }
        if (random.nextBoolean()) {
            random.nextBytes(bytes);
        } else {
            Arrays.fill(bytes, (byte) random.nextInt(256));
        }
        return bytes;
    }

    private Header[] randomHeaders() {
        List<String> keys = List.of("", "k", "ключ", "\ud83d\ude00", "a\nb\"c", "x".repeat(100));
        Header[] headers = new Header[1 + random.nextInt(4)];
        for (int i = 0; i < headers.length; i++) {
            headers[i] = new RecordHeader(keys.get(random.nextInt(keys.size())), randomBytes());
        }
        return headers;
    }

    // ---- reading

    private static void dump(Path file, Path target) throws IOException {
        try (DataInputStream in = new DataInputStream(Files.newInputStream(file));
             BufferedWriter out = Files.newBufferedWriter(target)) {
            while (true) {
                byte[] size = in.readNBytes(4);
                if (size.length < 4) {
                    return;
                }
                byte[] data = in.readNBytes(ByteBuffer.wrap(size).getInt());
                dumpCase(data, out);
            }
        }
    }

    private static void dumpCase(byte[] data, BufferedWriter out) throws IOException {
        int position = 0;
        String error = null;
        Iterator<MutableRecordBatch> batches = MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batchIterator();
        try {
            while (batches.hasNext()) {
                MutableRecordBatch batch = batches.next();
                StringBuilder line = new StringBuilder();
                dumpBatch(batch, position, line);
                out.write(line.append("\n").toString());
                position += batch.sizeInBytes();
            }
        } catch (RuntimeException e) {
            error = e.toString();
        }
        out.write("{\"end\":" + position + ",\"error\":" + text(error) + "}\n");
    }

    private static void dumpBatch(MutableRecordBatch batch, int position, StringBuilder line) {
        line.append("{\"position\":").append(position).append(",\"size\":").append(batch.sizeInBytes());
        try {
            batch.ensureValid();
        } catch (RuntimeException e) {
            line.append(",\"invalid\":").append(text(e.toString())).append("}");
            return;
        }
        int start = line.length();
        try {
            line.append(",\"magic\":").append(batch.magic());
            if (batch.magic() == 2 || batch.compressionType() == CompressionType.NONE) {
                line.append(",\"base_offset\":").append(batch.baseOffset());
            }
            line.append(",\"last_offset\":").append(batch.lastOffset());
            line.append(",\"compression\":").append(text(batch.compressionType().name));
            line.append(",\"timestamp_type\":").append(text(batch.timestampType().name));
            line.append(",\"max_timestamp\":").append(batch.maxTimestamp());
            if (batch instanceof DefaultRecordBatch) {
                line.append(",\"base_timestamp\":").append(((DefaultRecordBatch) batch).baseTimestamp());
            }
            if (batch.deleteHorizonMs().isPresent()) {
                line.append(",\"delete_horizon\":").append(batch.deleteHorizonMs().getAsLong());
            }
            line.append(",\"leader_epoch\":").append(batch.partitionLeaderEpoch());
            line.append(",\"producer_id\":").append(batch.producerId());
            line.append(",\"producer_epoch\":").append(batch.producerEpoch());
            line.append(",\"base_sequence\":").append(batch.baseSequence());
            line.append(",\"is_transactional\":").append(batch.isTransactional());
            line.append(",\"is_control\":").append(batch.isControlBatch());
            line.append(",\"count\":").append(batch.countOrNull());
        } catch (RuntimeException e) {  // a codec that does not exist
            line.setLength(start);
            line.append(",\"unreadable\":").append(text(e.toString())).append("}");
            return;
        }
        line.append(",\"records\":[");
        String error = null;
        String separator = "";
        boolean isEmpty = Integer.valueOf(0).equals(batch.countOrNull());  // the stream would be opened in vain
        try (var records = isEmpty
                ? CloseableIterator.wrap(batch.iterator()) : batch.streamingIterator(BufferSupplier.NO_CACHING)) {
            while (records.hasNext()) {
                Record record = records.next();
                start = line.length();
                try {
                    line.append(separator);
                    dumpRecord(record, line);
                    separator = ",";
                } catch (RuntimeException e) {
                    line.setLength(start);
                    throw e;
                }
            }
        } catch (RuntimeException | Error e) {  // snappy-java throws an Error
            error = e.toString();
        }
        line.append("],\"error\":").append(text(error)).append("}");
    }

    private static void dumpRecord(Record record, StringBuilder line) {
        String valid = "true";
        try {
            record.ensureValid();
        } catch (RuntimeException e) {
            valid = "false";
        }
        line.append("[").append(record.offset()).append(",").append(record.timestamp());
        line.append(",").append(hex(record.key())).append(",").append(hex(record.value())).append(",[");
        String separator = "";
        for (Header header : record.headers()) {
            String key = HexFormat.of().formatHex(header.key().getBytes(StandardCharsets.UTF_8));
            line.append(separator).append("[\"").append(key).append("\",");
            line.append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value()))).append("]");
            separator = ",";
        }
        line.append("],").append(valid).append("]");
    }

    private static String hex(ByteBuffer buffer) {
        return buffer == null ? "null" : "\"" + HexFormat.of().formatHex(Utils.toArray(buffer)) + "\"";
    }

    private static String text(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            out.append(c < ' ' || c == '"' || c == '\\' || c > '~' ? '?' : c);
        }
        return out.append("\"").toString();
    }
}
