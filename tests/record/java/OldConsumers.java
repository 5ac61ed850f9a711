import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import kafka.common.TopicAndPartition;
import kafka.consumer.Blacklist;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerFetcherManager;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.KafkaStream;
import kafka.consumer.TopicFilter;
import kafka.consumer.Whitelist;
import kafka.consumer.ZookeeperConsumerConnector;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;
import kafka.server.AbstractFetcherThread;
import kafka.server.BrokerAndFetcherId;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * High-level consumers of Kafka 0.8, which coordinate through ZooKeeper. Each has a connection to
 * ZooKeeper of its own; a crash is the end of the whole process.
 *
 * <p>Verbs:
 *
 * <ul>
 *   <li>old-join (name, config.*, and streams=topic:n,... or white=regex threads=n or black=regex
 *       threads=n): starts a consumer and answers with its id once it has its first partitions.
 *   <li>old-read (names, count): waits until they have read that many records together.
 *   <li>old-commit (name): commits its position of every partition.
 *   <li>old-leave (names): stops them cleanly, all at once.
 *   <li>old-journal: a line for each record that was read: time, name, "read", partition, and twice
 *       its offset, as {@code Consumers} has it.
 *   <li>old-busy: the names of those that rebalance or are about to, with commas between.
 *   <li>old-fetchers (name): a line for each partition it fetches, or waits for a leader of: name
 *       of the fetcher thread, broker, topic, partition, next offset to fetch, with tabs between;
 *       thread, broker and offset are empty for one that waits. Only threads that live count.
 * </ul>
 */
public final class OldConsumers implements Session.Actor {
    private static final String CONNECTOR = "kafka$consumer$ZookeeperConsumerConnector$$";
    private static final String LISTENER =
        "kafka$consumer$ZookeeperConsumerConnector$ZKRebalancerListener$$";

    private final Map<String, ConsumerConnector> connectors = new ConcurrentHashMap<>();
    private final Map<String, AtomicInteger> read = new ConcurrentHashMap<>();
    private final Queue<String> journal = new ConcurrentLinkedQueue<>();

    @Override
    public Map<String, Session.Verb> verbs() {
        Map<String, Session.Verb> verbs = new HashMap<>();
        verbs.put("old-join", this::join);
        verbs.put("old-read", arguments -> {
            int expected = Integer.parseInt(arguments.get("count"));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(180);
            int count = 0;
            while (count < expected) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("read after three minutes: " + count);
                }
                Thread.sleep(100);
                count = 0;
                for (String name : arguments.get("names").split(",")) {
                    count += read.get(name).get();
                }
            }
            return String.valueOf(count);
        });
        verbs.put("old-commit", arguments -> {
            connectors.get(arguments.get("name")).commitOffsets();
            return "";
        });
        verbs.put("old-leave", arguments -> {
            List<Thread> leaving = new ArrayList<>();
            for (String name : arguments.get("names").split(",")) {
                leaving.add(new Thread(connectors.remove(name)::shutdown));
            }
            for (Thread each : leaving) {
                each.start();
            }
            for (Thread each : leaving) {
                each.join();
            }
            return "";
        });
        verbs.put("old-journal", arguments -> String.join("\n", journal));
        verbs.put("old-busy", arguments -> {
            List<String> busy = new ArrayList<>();
            for (Map.Entry<String, ConsumerConnector> entry : connectors.entrySet()) {
                if (rebalances(inner(entry.getValue()))) {
                    busy.add(entry.getKey());
                }
            }
            return String.join(",", busy);
        });
        verbs.put("old-fetchers", arguments ->
            fetchers(inner(connectors.get(arguments.get("name")))));
        return verbs;
    }

    private String join(Map<String, String> arguments) throws Exception {
        Properties config = new Properties();
        config.putAll(Session.config(arguments));
        String name = arguments.get("name");
        ConsumerConnector connector =
            kafka.consumer.Consumer.createJavaConsumerConnector(new ConsumerConfig(config));
        connectors.put(name, connector);
        AtomicInteger count = new AtomicInteger();
        read.put(name, count);
        for (KafkaStream<byte[], byte[]> stream : streams(connector, arguments)) {
            Thread reader = new Thread(() -> {
                ConsumerIterator<byte[], byte[]> messages = stream.iterator();
                while (messages.hasNext()) {
                    MessageAndMetadata<byte[], byte[]> message = messages.next();
                    count.incrementAndGet();
                    journal.add(System.currentTimeMillis() + " " + name + " read "
                        + message.topic() + "-" + message.partition() + " " + message.offset()
                        + " " + message.offset());
                }
            });
            reader.setDaemon(true);
            reader.start();
        }
        return inner(connector).consumerIdString();
    }

    private static List<KafkaStream<byte[], byte[]>> streams(
            ConsumerConnector connector, Map<String, String> arguments) {
        if (arguments.containsKey("streams")) {
            Map<String, Integer> counts = new HashMap<>();
            for (String each : arguments.get("streams").split(",")) {
                String[] topicAndCount = each.split(":");
                counts.put(topicAndCount[0], Integer.valueOf(topicAndCount[1]));
            }
            List<KafkaStream<byte[], byte[]>> all = new ArrayList<>();
            connector.createMessageStreams(counts).values().forEach(all::addAll);
            return all;
        }
        TopicFilter filter = arguments.containsKey("white")
            ? new Whitelist(arguments.get("white")) : new Blacklist(arguments.get("black"));
        return connector.createMessageStreamsByFilter(
            filter, Integer.parseInt(arguments.get("threads")));
    }

    /** Tell whether its watcher has been told of a change, or acts on one. */
    private static boolean rebalances(ZookeeperConsumerConnector connector) throws Exception {
        Object listener = get(connector, CONNECTOR + "loadBalancerListener");
        if ((Boolean) get(listener, LISTENER + "isWatcherTriggered")) {
            return true;
        }
        Thread watcher = (Thread) get(listener, "watcherExecutorThread");
        for (StackTraceElement frame : watcher.getStackTrace()) {
            if (frame.getMethodName().equals("syncedRebalance")) {
                return true;
            }
        }
        return false;
    }

    private static String fetchers(ZookeeperConsumerConnector connector) throws Exception {
        ConsumerFetcherManager manager = (ConsumerFetcherManager)
            connector.kafka$consumer$ZookeeperConsumerConnector$$fetcher().get();
        List<String> lines = new ArrayList<>();
        Iterator<Tuple2<BrokerAndFetcherId, AbstractFetcherThread>> threads =
            manager.kafka$server$AbstractFetcherManager$$fetcherThreadMap().iterator();
        while (threads.hasNext()) {
            Tuple2<BrokerAndFetcherId, AbstractFetcherThread> each = threads.next();
            AbstractFetcherThread thread = each._2();
            if (!thread.isAlive()) {
                continue;
            }
            Iterator<Tuple2<TopicAndPartition, Object>> partitions =
                thread.kafka$server$AbstractFetcherThread$$partitionMap().iterator();
            while (partitions.hasNext()) {
                Tuple2<TopicAndPartition, Object> partition = partitions.next();
                lines.add(String.join("\t", thread.getName(),
                    String.valueOf(each._1().broker().id()), partition._1().topic(),
                    String.valueOf(partition._1().partition()), partition._2().toString()));
            }
        }
        Collection<?> waiting = scala.collection.JavaConversions.asJavaCollection(
            (scala.collection.Iterable<?>)
                get(manager, "kafka$consumer$ConsumerFetcherManager$$noLeaderPartitionSet"));
        for (Object each : waiting) {
            TopicAndPartition partition = (TopicAndPartition) each;
            lines.add(String.join("\t", "", "", partition.topic(),
                String.valueOf(partition.partition()), ""));
        }
        return String.join("\n", lines);
    }

    /** The Scala connector that does the work of the Java one. */
    private static ZookeeperConsumerConnector inner(ConsumerConnector connector) throws Exception {
        return (ZookeeperConsumerConnector) get(connector, "underlying");
    }

    private static Object get(Object object, String name) throws Exception {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }
}
