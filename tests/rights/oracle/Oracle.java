import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** Answers questions of standard input with Kafka's own StandardAuthorizer: one line of 0 and 1 for each set of rules. */
public final class Oracle {
    private static final Map<String, InetAddress> ADDRESSES = new HashMap<>();

    private static final Map<String, StandardAuthorizer> AUTHORIZERS = new HashMap<>();

    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "L"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    public static void main(String[] words) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        StandardAuthorizer authorizer = null;
        List<StandardAcl> rules = new ArrayList<>();
        Map<Uuid, StandardAcl> snapshot = new HashMap<>();
        StringBuilder answers = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] f = line.split("\t", -1);
            switch (f[0]) {
                case "world" -> {
                    authorizer = AUTHORIZERS.computeIfAbsent(f[1] + "\t" + f[2], settings -> authorizer(f[1], f[2]));
                    rules.clear();
                    snapshot.clear();
                    answers.setLength(0);
                }
                case "rule" -> {
                    StandardAcl acl = new StandardAcl(ResourceType.valueOf(f[1]), f[3], PatternType.valueOf(f[2]), f[4], f[5],
                        AclOperation.valueOf(f[6]), AclPermissionType.valueOf(f[7]));
                    rules.add(acl);
                    snapshot.put(Uuid.randomUuid(), acl);
                }
                case "ready" -> authorizer.loadSnapshot(snapshot);
                case "may" -> {
                    Action action = new Action(AclOperation.valueOf(f[3]),
                        new ResourcePattern(ResourceType.valueOf(f[4]), f[5], PatternType.LITERAL), 1, false, false);
                    bit(answers, authorizer.authorize(context(f), List.of(action)).get(0) == AuthorizationResult.ALLOWED);
                }
                case "some" -> bit(answers, authorizer.authorizeByResourceType(context(f), AclOperation.valueOf(f[3]),
                    ResourceType.valueOf(f[4])) == AuthorizationResult.ALLOWED);
                case "find" -> {
                    AclBindingFilter filter = new AclBindingFilter(
                        new ResourcePatternFilter(ResourceType.valueOf(f[1]), none(f[3]), PatternType.valueOf(f[2])),
                        new AccessControlEntryFilter(none(f[4]), none(f[5]), AclOperation.valueOf(f[6]),
                            AclPermissionType.valueOf(f[7])));
                    for (StandardAcl acl : rules) {
                        bit(answers, filter.matches(acl.toBinding()));
                    }
                }
                case "end" -> out.println(answers);
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    private static StandardAuthorizer authorizer(String superUsers, String allowEveryone) {
        StandardAuthorizer made = new StandardAuthorizer();
        made.configure(Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", allowEveryone, "node.id", "1"));
        made.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        made.completeInitialLoad();
        return made;
    }

    private static Context context(String[] f) throws Exception {
        InetAddress address = ADDRESSES.get(f[2]);
        if (address == null) {
            address = InetAddress.getByName(f[2]);
            ADDRESSES.put(f[2], address);
        }
        return new Context(SecurityUtils.parseKafkaPrincipal(f[1]), address);
    }

    private static String none(String field) {
        return field.equals("-") ? null : field;
    }

    private static void bit(StringBuilder answers, boolean isSo) {
        answers.append(isSo ? '1' : '0');
    }
}
