import java.io.ByteArrayInputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Key;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;

/**
 * Writes key stores as Java does, from ca.der, client.der and client.key.der (PKCS#8, elliptic curve)
 * in the folder that is the first argument; the second is the password of stores, the third of keys.
 */
public class MakeStores {
    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        char[] password = args[1].toCharArray();
        char[] keyPassword = args[2].toCharArray();
        Certificate ca = certificate(folder.resolve("ca.der"));
        Certificate[] chain = {certificate(folder.resolve("client.der")), ca};
        Key key = KeyFactory.getInstance("EC").generatePrivate(
            new PKCS8EncodedKeySpec(Files.readAllBytes(folder.resolve("client.key.der"))));

        KeyStore trusted = empty("JKS");
        trusted.setCertificateEntry("ca", ca);
        save(trusted, folder.resolve("trust.jks"), password);
        KeyStore own = empty("JKS");
        own.setCertificateEntry("ca", ca);
        own.setKeyEntry("clïent", key, keyPassword, chain);
        save(own, folder.resolve("client.jks"), password);
        for (String kind : new String[] {"", "-legacy"}) {
            if (!kind.isEmpty()) System.setProperty("keystore.pkcs12.legacy", "true");
            trusted = empty("PKCS12");
            trusted.setCertificateEntry("ca", ca);
            save(trusted, folder.resolve("trust" + kind + ".p12"), password);
            own = empty("PKCS12");
            own.setKeyEntry("client", key, password, chain);
            save(own, folder.resolve("client" + kind + ".p12"), password);
        }
    }

    private static KeyStore empty(String type) throws Exception {
        KeyStore store = KeyStore.getInstance(type);
        store.load(null, null);
        return store;
    }

    private static Certificate certificate(Path file) throws Exception {
        byte[] data = Files.readAllBytes(file);
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        return factory.generateCertificate(new ByteArrayInputStream(data));
    }

    private static void save(KeyStore store, Path file, char[] password) throws Exception {
        try (OutputStream out = Files.newOutputStream(file)) {
            store.store(out, password);
        }
    }
}
