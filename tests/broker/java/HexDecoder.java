import kafka.serializer.Decoder;
import kafka.utils.VerifiableProperties;

/** Shows the bytes of a key or a value as hexadecimal digits, for kafka.tools.DumpLogSegments. */
public class HexDecoder implements Decoder<String> {
    public HexDecoder(VerifiableProperties unused) {
    }

    @Override
    public String fromBytes(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }
}
