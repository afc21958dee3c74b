import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Apache Kafka's StandardAuthorizer, asked line by line (words are split by tabs):
 *   world SUPER.USERS ALLOW.EVERYONE
 *   acl TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION
 *   load
 *   ask PRINCIPAL HOST OPERATION TYPE NAME      answers 1 (allowed) or 0
 *   any PRINCIPAL HOST OPERATION TYPE           the same, for any resource of the type
 */
public class AclOracle {
    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "CLIENT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 9; }
        public String clientId() { return "oracle"; }
        public int correlationId() { return 1; }
    }

    static AclOperation operation(String code) { return AclOperation.fromCode(Byte.parseByte(code)); }

    static ResourceType type(String code) { return ResourceType.fromCode(Byte.parseByte(code)); }

    static Context context(String principal, String host) throws Exception {
        String[] parts = principal.split(":", 2);
        return new Context(new KafkaPrincipal(parts[0], parts[1]), InetAddress.getByName(host));
    }

    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        StandardAuthorizer authorizer = null;
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        for (String line; (line = in.readLine()) != null; ) {
            String[] w = line.split("\t", -1);
            switch (w[0]) {
                case "world":
                    authorizer = new StandardAuthorizer();
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.configure(Map.of("node.id", "1", "super.users", w[1],
                        "allow.everyone.if.no.acl.found", w[2]));
                    acls.clear();
                    break;
                case "acl":
                    acls.put(Uuid.randomUuid(), new StandardAcl(type(w[1]), w[2],
                        PatternType.fromCode(Byte.parseByte(w[3])), w[4], w[5], operation(w[6]),
                        AclPermissionType.fromCode(Byte.parseByte(w[7]))));
                    break;
                case "load":
                    authorizer.loadSnapshot(acls);
                    authorizer.completeInitialLoad();
                    break;
                case "ask":
                    var action = new Action(operation(w[3]),
                        new ResourcePattern(type(w[4]), w[5], PatternType.LITERAL), 1, false, false);
                    var result = authorizer.authorize(context(w[1], w[2]), List.of(action)).get(0);
                    out.println(result == AuthorizationResult.ALLOWED ? "1" : "0");
                    break;
                case "any":
                    var any = authorizer.authorizeByResourceType(context(w[1], w[2]), operation(w[3]), type(w[4]));
                    out.println(any == AuthorizationResult.ALLOWED ? "1" : "0");
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }
}
