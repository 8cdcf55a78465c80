import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;
import java.io.File;

/**
 * An ActiveMQ on loopback with KahaDB, as its own configuration file would make it, but for two things: no web console, and pages of
 * 2000 messages, without which optimizeAcknowledge with a prefetch of 1000 stands still. Usage: PORT FOLDER
 */
public class ActiveMqServer {
    public static void main(String[] words) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("bench");
        broker.setUseJmx(false);
        broker.setUseShutdownHook(true);
        broker.setSchedulerSupport(false);
        broker.setAdvisorySupport(false);
        broker.setDataDirectory(words[1]);
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setDirectory(new File(words[1], "kahadb"));
        store.setEnableJournalDiskSyncs(false); // no forced flush, as for the other servers
        broker.setPersistenceAdapter(store);
        broker.getSystemUsage().getMemoryUsage().setLimit(512L << 20);
        PolicyEntry entry = new PolicyEntry();
        entry.setQueue(">");
        entry.setMaxPageSize(2000);
        PolicyMap policies = new PolicyMap();
        policies.setDefaultEntry(entry);
        broker.setDestinationPolicy(policies);
        broker.addConnector("tcp://127.0.0.1:" + words[0] + "?maximumConnections=100");
        broker.start();
        broker.waitUntilStopped();
    }
}
