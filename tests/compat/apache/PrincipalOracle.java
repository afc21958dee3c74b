import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Who a certificate is, asked line by line (words are split by tabs; bytes are in base64):
 *   name CERTIFICATE     answers the name as Java spells it
 *   map RULES NAME       answers what Apache Kafka's SslPrincipalMapper makes of it
 * Answers are in base64; a dash: refused, or no rule fits.
 */
public class PrincipalOracle {
    static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }

    static String answer(String[] words) {
        try {
            if (words[0].equals("name")) {
                CertificateFactory factory = CertificateFactory.getInstance("X.509");
                byte[] der = Base64.getDecoder().decode(words[1]);
                X509Certificate found =
                    (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(der));
                return found.getSubjectX500Principal().getName();
            }
            return SslPrincipalMapper.fromRules(text(words[1])).getName(text(words[2]));
        } catch (Exception error) {
            return null;
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line; (line = in.readLine()) != null; ) {
            String found = answer(line.split("\t", -1));
            out.println(found == null ? "-" :
                "=" + Base64.getEncoder().encodeToString(found.getBytes(StandardCharsets.UTF_8)));
        }
        out.flush();
    }
}
