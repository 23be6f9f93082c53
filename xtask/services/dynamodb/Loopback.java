import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import com.amazonaws.services.dynamodbv2.local.server.DynamoDBProxyServer;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * DynamoDB Local on loopback only: by itself it listens on every address of the machine and has no option for less.
 * The arguments are the port and, if the tables are to be kept on disk, a directory; otherwise they are in memory.
 */
public final class Loopback {
    public static void main(String[] args) throws Exception {
        String[] memory = {"-inMemory", "-disableTelemetry", "-port", args[0]};
        String[] options = args.length < 2 ? memory
            : new String[] {"-dbPath", args[1], "-disableTelemetry", "-port", args[0]};
        DynamoDBProxyServer local = ServerRunner.createServerFromCommandLineArgs(options);
        var field = DynamoDBProxyServer.class.getDeclaredField("server");
        field.setAccessible(true);
        int bound = 0;
        for (Connector connector : ((Server) field.get(local)).getConnectors()) {
            ((ServerConnector) connector).setHost("127.0.0.1");
            bound++;
        }
        if (bound == 0) {
            throw new IllegalStateException("DynamoDB Local has no connector yet; it is not started");
        }
        local.start();
        local.join();
    }
}
