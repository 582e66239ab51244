import java.io.File;
import java.io.FileReader;
import java.io.FileWriter;
import java.net.InetSocketAddress;
import java.util.Properties;
import org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/** Runs ZooKeeper on a free port, its data in the folder args[1], and an old broker with the properties args[0]. */
public class ZooKeeperBroker {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[1]);
        NIOServerCnxnFactory connections = new NIOServerCnxnFactory();
        connections.configure(new InetSocketAddress("127.0.0.1", 0), 20);
        connections.startup(new ZooKeeperServer(folder, folder, 1000));
        Properties settings = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            settings.load(file);
        }
        settings.setProperty("zookeeper.connect", "127.0.0.1:" + connections.getLocalPort());
        try (FileWriter file = new FileWriter(arguments[0])) {
            settings.store(file, null);
        }
        kafka.Kafka.main(new String[] {arguments[0]});
    }
}
