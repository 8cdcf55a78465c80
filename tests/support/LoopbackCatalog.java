import java.net.InetSocketAddress;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Apache Iceberg's REST catalog on the loopback: its own program listens on every address. Arguments: port, then key=value. */
public class LoopbackCatalog {
    public static void main(String[] words) throws Exception {
        Map<String, String> settings = new TreeMap<>();
        for (int at = 1; at < words.length; at++) {
            int middle = words[at].indexOf('=');
            settings.put(words[at].substring(0, middle), words[at].substring(middle + 1));
        }
        var catalog = CatalogUtil.buildIcebergCatalog("rest", settings, new Configuration());
        var context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        var server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])));
        server.setHandler(context);
        server.start();
        server.join();
    }
}
