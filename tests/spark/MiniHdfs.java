import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;

/**
 * A cluster of HDFS with two name nodes, of which the first is active, and two data nodes.
 *
 * <p>usage: MiniHdfs FOLDER. It prints NAME=VALUE for each property that a client needs, then an empty line. A line of
 * standard input fails over to the other name node, which is confirmed by an empty line; the end of the input stops it.
 */
public final class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new HdfsConfiguration();
        configuration.setInt("dfs.replication", 2);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(configuration, new File(arguments[0]))
                .nnTopology(MiniDFSNNTopology.simpleHATopology())
                .numDataNodes(2)
                .build();
        try {
            cluster.waitActive();
            int active = 0;
            cluster.transitionToActive(active);
            System.out.println("dfs.nameservices=archive");
            System.out.println("dfs.ha.namenodes.archive=nn1,nn2");
            for (int at = 0; at < 2; at++) {
                Configuration of = cluster.getConfiguration(at);
                System.out.println("dfs.namenode.http-address.archive.nn" + (at + 1) + "="
                        + cluster.getNameNode(at).getHttpAddress().getHostName() + ":"
                        + cluster.getNameNode(at).getHttpAddress().getPort());
                System.out.println("dfs.namenode.rpc-address.archive.nn" + (at + 1) + "="
                        + cluster.getNameNode(at).getNameNodeAddressHostPortString());
            }
            System.out.println();
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
            while (input.readLine() != null) {
                cluster.transitionToStandby(active);
                active = 1 - active;
                cluster.transitionToActive(active);
                System.out.println();
            }
        } finally {
            cluster.shutdown(true);
        }
        System.exit(0);
    }
}
