import java.net.URI;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.http.nio.netty.NettyNioAsyncHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.kinesis.common.DdbTableConfig;
import software.amazon.kinesis.leases.Lease;
import software.amazon.kinesis.leases.LeaseStatsRecorder;
import software.amazon.kinesis.leases.dynamodb.DynamoDBLeaseRefresher;
import software.amazon.kinesis.leases.dynamodb.DynamoDBLeaseRenewer;
import software.amazon.kinesis.leases.dynamodb.DynamoDBLeaseSerializer;
import software.amazon.kinesis.leases.dynamodb.DynamoDBLeaseTaker;
import software.amazon.kinesis.leases.dynamodb.TableCreatorCallback;
import software.amazon.kinesis.metrics.NullMetricsFactory;

/**
 * Workers of the real Kinesis Client Library as far as leases go: its taker and its renewer, at the pace of its own coordinator.
 *
 * <p>Arguments: endpoint, table, failover time in ms, most leases of a worker, how many it steals at a time (the library's
 * default is 1), how often it looks at what it holds in ms (0: never, then it tells of no lease), and the ids of its workers. On standard output, with the time of CLOCK_MONOTONIC in ns,
 * which every process of this machine shares:
 *
 * <pre>
 *   ready NANOS
 *   taken WORKER KEY COUNTER NANOS
 *   lost WORKER KEY NANOS
 * </pre>
 *
 * It ends at "stop" on standard input, or at that input's end, so that it never outlives who started it. As in the library
 * itself, nothing is released then.
 */
public final class KclWorker {
    /** What the library's coordinator allows for clocks and scheduling. */
    private static final long EPSILON_MILLIS = 25;
    /** The library's default for renewals side by side. */
    private static final int RENEWAL_THREADS = 20;

    private final String id;
    private final DynamoDBLeaseTaker taker;
    private final DynamoDBLeaseRenewer renewer;
    /** What was told of: keys, and by which token the library knows this tenure of them. */
    private final Map<String, UUID> told = new HashMap<>();
    private final boolean tells;

    private KclWorker(DynamoDbAsyncClient client, String id, String[] args) {
        this.id = id;
        tells = Long.parseLong(args[5]) > 0;
        long failover = Long.parseLong(args[2]);
        DynamoDBLeaseRefresher refresher =
                new DynamoDBLeaseRefresher(
                        args[1],
                        client,
                        new DynamoDBLeaseSerializer(),
                        true,
                        TableCreatorCallback.NOOP_TABLE_CREATOR_CALLBACK,
                        Duration.ofSeconds(60),
                        new DdbTableConfig(),
                        false,
                        false,
                        List.of());
        ExecutorService renewals = Executors.newFixedThreadPool(RENEWAL_THREADS, KclWorker::background);
        NullMetricsFactory metrics = new NullMetricsFactory();
        taker =
                new DynamoDBLeaseTaker(refresher, id, failover, metrics)
                        .withMaxLeasesForWorker(Integer.parseInt(args[3]))
                        .withMaxLeasesToStealAtOneTime(Integer.parseInt(args[4]));
        LeaseStatsRecorder stats =
                new LeaseStatsRecorder(renewEvery(failover), System::currentTimeMillis);
        renewer =
                new DynamoDBLeaseRenewer(
                        refresher, id, failover, renewals, metrics, stats, lease -> {}, 0);
    }

    private static long renewEvery(long failover) {
        return failover / 3 - EPSILON_MILLIS;
    }

    private static long takeEvery(long failover) {
        return (failover + EPSILON_MILLIS) * 2;
    }

    private static Thread background(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    private void take() {
        try {
            renewer.addLeasesToRenew(taker.takeLeases().values());
            tell();
        } catch (Exception error) {
            System.err.println(id + " can't take: " + error);
        }
    }

    private void renew() {
        try {
            renewer.renewLeases();
            tell();
        } catch (Exception error) {
            System.err.println(id + " can't renew: " + error);
        }
    }

    /** Says what has changed in what the library would let this worker work on. */
    private synchronized void tell() {
        if (!tells) {
            return;
        }
        Map<String, Lease> held = renewer.getCurrentlyHeldLeases();
        long now = System.nanoTime();
        told.entrySet()
                .removeIf(
                        entry -> {
                            Lease lease = held.get(entry.getKey());
                            boolean lost = lease == null || !lease.concurrencyToken().equals(entry.getValue());
                            if (lost) {
                                say("lost " + id + " " + entry.getKey() + " " + now);
                            }
                            return lost;
                        });
        for (Lease lease : held.values()) {
            if (told.putIfAbsent(lease.leaseKey(), lease.concurrencyToken()) == null) {
                say("taken " + id + " " + lease.leaseKey() + " " + lease.leaseCounter() + " " + now);
            }
        }
    }

    private static synchronized void say(String line) {
        // In one piece, so that a kill leaves a whole line or nothing.
        System.out.print(line + "\n");
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        long failover = Long.parseLong(args[2]);
        long look = Long.parseLong(args[5]);
        DynamoDbAsyncClient client =
                DynamoDbAsyncClient.builder()
                        .endpointOverride(URI.create(args[0]))
                        .region(Region.EU_WEST_1)
                        .credentialsProvider(
                                StaticCredentialsProvider.create(AwsBasicCredentials.create("local", "local")))
                        .httpClientBuilder(NettyNioAsyncHttpClient.builder().maxConcurrency(200))
                        .build();
        int workers = args.length - 6;
        ScheduledExecutorService timers = Executors.newScheduledThreadPool(3 * workers, KclWorker::background);
        for (int n = 0; n < workers; n++) {
            KclWorker worker = new KclWorker(client, args[6 + n], args);
            // What it holds by the table, from an earlier life: the library's coordinator begins with that, too.
            worker.renewer.initialize();
            timers.scheduleWithFixedDelay(worker::take, 0, takeEvery(failover), TimeUnit.MILLISECONDS);
            timers.scheduleAtFixedRate(worker::renew, 0, renewEvery(failover), TimeUnit.MILLISECONDS);
            if (look > 0) {
                timers.scheduleAtFixedRate(worker::tell, look, look, TimeUnit.MILLISECONDS);
            }
        }
        say("ready " + System.nanoTime());
        try (Scanner input = new Scanner(System.in)) {
            while (input.hasNextLine() && !input.nextLine().equals("stop")) {
                // Anything else means nothing.
            }
        }
        System.exit(0);
    }
}
