import com.amazonaws.services.dynamodbv2.AcquireLockOptions;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClientOptions;
import com.amazonaws.services.dynamodbv2.LockItem;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.http.apache.ApacheHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;

/**
 * Pairs of acquire and release by AWS's own lock client.
 *
 * <p>Arguments: endpoint, table (HASH key "key"). Each line "pairs TASKS MILLIS" on standard input is answered with one line:
 * pairs, and the 50th and 99th percentile and the mean of a pair in µs. It ends with its input.
 */
public final class LockPairs {
    public static void main(String[] args) throws Exception {
        DynamoDbClient dynamo =
                DynamoDbClient.builder()
                        .endpointOverride(URI.create(args[0]))
                        .region(Region.EU_WEST_1)
                        .credentialsProvider(
                                StaticCredentialsProvider.create(AwsBasicCredentials.create("local", "local")))
                        .httpClientBuilder(ApacheHttpClient.builder().maxConnections(64))
                        .build();
        // One client for all tasks, as its documentation asks; its heartbeats go on in the background, as in production.
        AmazonDynamoDBLockClient locks =
                new AmazonDynamoDBLockClient(
                        AmazonDynamoDBLockClientOptions.builder(dynamo, args[1])
                                .withTimeUnit(TimeUnit.SECONDS)
                                .withLeaseDuration(10L)
                                .withHeartbeatPeriod(3L)
                                .withCreateHeartbeatBackgroundThread(true)
                                .build());
        ExecutorService tasks = Executors.newCachedThreadPool();
        try (Scanner input = new Scanner(System.in)) {
            while (input.hasNext("pairs")) {
                input.next();
                int count = input.nextInt();
                long millis = input.nextLong();
                long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
                List<Future<List<Long>>> running = new ArrayList<>();
                for (int task = 0; task < count; task++) {
                    String key = "task/" + task;
                    running.add(tasks.submit(() -> pairs(locks, key, end)));
                }
                List<Long> all = new ArrayList<>();
                for (Future<List<Long>> task : running) {
                    all.addAll(task.get());
                }
                long[] sorted = all.stream().mapToLong(Long::longValue).sorted().toArray();
                long mean = (long) Arrays.stream(sorted).average().orElse(0);
                System.out.println(
                        sorted.length + " " + percentile(sorted, 50) + " " + percentile(sorted, 99) + " " + mean);
                System.out.flush();
            }
        }
        System.exit(0);
    }

    private static List<Long> pairs(AmazonDynamoDBLockClient locks, String key, long end) throws Exception {
        List<Long> micros = new ArrayList<>();
        while (System.nanoTime() < end) {
            long began = System.nanoTime();
            LockItem lock = locks.acquireLock(AcquireLockOptions.builder(key).build());
            if (!locks.releaseLock(lock)) {
                throw new IllegalStateException("lost " + key);
            }
            micros.add((System.nanoTime() - began) / 1000);
        }
        return micros;
    }

    private static long percentile(long[] sorted, int percent) {
        return sorted.length == 0 ? 0 : sorted[(sorted.length - 1) * percent / 100];
    }
}
