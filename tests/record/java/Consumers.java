import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * The Java consumer of Kafka 0.9.0.1 to 4.3.1, each in a thread of its own that polls all the time.
 *
 * <p>Verbs: join (name, topics | pattern | regex, config.*); settle (names, partitions): waits until
 * each of the named owns a partition, all together own that many, and nothing moves for a second;
 * owned (name); commit (name, offsets, metadata); pause (name, ms): asks a consumer, before it joins,
 * not to poll for a time after its next assignment that brings partitions; leave (name); diary
 * (name): a line for each assignment that the consumer was told of, and one for now: time, member
 * id, generation (since 2.4) and what it owns; journal: what all consumers have done since the JVM
 * began, a line each: time, name, a word, and a partition: assigned, revoked, lost, or read with the
 * first and the last offset of a poll. Methods that changed between versions are found by
 * reflection.
 */
public final class Consumers implements Session.Actor {
    private final Map<String, Member> members = new ConcurrentHashMap<>();
    private final Map<String, LinkedBlockingQueue<Long>> pauses = new ConcurrentHashMap<>();
    private static final java.util.Queue<String> JOURNAL =
        new java.util.concurrent.ConcurrentLinkedQueue<>();

    private static void note(String name, String word, Object what) {
        JOURNAL.add(System.currentTimeMillis() + " " + name + " " + word + " " + what);
    }

    @Override
    public Map<String, Session.Verb> verbs() {
        Map<String, Session.Verb> verbs = new HashMap<>();
        verbs.put("join", this::join);
        verbs.put("settle", this::settle);
        verbs.put("owned", arguments -> String.join(",", member(arguments).owned));
        verbs.put("commit", arguments -> member(arguments).call(consumer -> {
            consumer.commitSync(offsets(arguments.get("offsets"), arguments.get("metadata")));
            return "";
        }));
        verbs.put("pause", arguments -> {
            pauses(arguments.get("name")).add(Long.parseLong(arguments.get("ms")));
            return "";
        });
        verbs.put("diary", arguments -> {
            Member member = member(arguments);
            return member.call(consumer -> {
                List<String> lines = new ArrayList<>(member.diary);
                lines.add(member.line());
                return String.join("\n", lines);
            });
        });
        verbs.put("journal", arguments -> String.join("\n", JOURNAL));
        verbs.put("leave", arguments -> {
            Member member = member(arguments);
            members.remove(member.getName());
            member.running = false;
            member.join();
            return "";
        });
        return verbs;
    }

    private LinkedBlockingQueue<Long> pauses(String name) {
        return pauses.computeIfAbsent(name, key -> new LinkedBlockingQueue<>());
    }

    private String join(Map<String, String> arguments) throws Exception {
        Map<String, Object> config = new HashMap<>();
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        config.put("key.deserializer", bytes);
        config.put("value.deserializer", bytes);
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.putAll(Session.config(arguments));
        String name = arguments.get("name");
        Member member = new Member(name, new KafkaConsumer<byte[], byte[]>(config), pauses(name));
        Consumer<byte[], byte[]> consumer = member.consumer;
        if (arguments.containsKey("topics")) {
            consumer.subscribe(
                Arrays.asList(arguments.get("topics").split(",")), new Diary(member));
        } else if (arguments.containsKey("pattern")) {
            Method subscribe = Consumer.class.getMethod("subscribe", Pattern.class,
                Class.forName("org.apache.kafka.clients.consumer.ConsumerRebalanceListener"));
            subscribe.invoke(consumer, Pattern.compile(arguments.get("pattern")), new NoListener());
        } else if (arguments.containsKey("regex")) {
            Class<?> pattern = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
            Consumer.class.getMethod("subscribe", pattern).invoke(
                consumer, pattern.getConstructor(String.class).newInstance(arguments.get("regex")));
        }
        members.put(arguments.get("name"), member);
        member.start();
        return "";
    }

    private String settle(Map<String, String> arguments) throws Exception {
        int partitions = Integer.parseInt(arguments.get("partitions"));
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(180);
        Map<String, Set<String>> before = new TreeMap<>();
        for (int steady = 0; steady < 10; Thread.sleep(100)) {
            Map<String, Set<String>> owned = new TreeMap<>();
            int total = 0;
            boolean idle = false;
            for (String name : arguments.get("names").split(",")) {
                Member member = members.get(name);
                if (member.failure != null) {
                    throw new IllegalStateException(name + " died", member.failure);
                }
                owned.put(name, member.owned);
                total += member.owned.size();
                idle |= member.owned.isEmpty();
            }
            steady = total == partitions && !idle && owned.equals(before) ? steady + 1 : 0;
            before = owned;
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("owned after three minutes: " + owned);
            }
        }
        return before.toString();
    }

    private Member member(Map<String, String> arguments) {
        Member member = members.get(arguments.get("name"));
        if (member == null) {
            throw new IllegalArgumentException("no consumer " + arguments.get("name"));
        }
        return member;
    }

    /** Reads {@code topic:partition:offset[:leader epoch]}, separated by commas. */
    static Map<TopicPartition, OffsetAndMetadata> offsets(String text, String metadata)
            throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (String item : text.split(",")) {
            String[] words = item.split(":");
            OffsetAndMetadata value = new OffsetAndMetadata(Long.parseLong(words[2]), metadata);
            if (words.length > 3) {
                value = OffsetAndMetadata.class
                    .getConstructor(long.class, Optional.class, String.class)
                    .newInstance(Long.parseLong(words[2]),
                        Optional.of(Integer.parseInt(words[3])), metadata);
            }
            offsets.put(new TopicPartition(words[0], Integer.parseInt(words[1])), value);
        }
        return offsets;
    }

    private interface Task {
        String run(Consumer<byte[], byte[]> consumer) throws Exception;
    }

    /** A consumer and the only thread that touches it. */
    private static final class Member extends Thread {
        final Consumer<byte[], byte[]> consumer;
        volatile boolean running = true;
        private final LinkedBlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();
        private final LinkedBlockingQueue<Long> pauses;
        private boolean assigned;
        volatile Set<String> owned = Collections.emptySet();
        volatile Throwable failure;
        final List<String> diary = new ArrayList<>();

        Member(
                String name, Consumer<byte[], byte[]> consumer, LinkedBlockingQueue<Long> pauses) {
            super(name);
            this.consumer = consumer;
            this.pauses = pauses;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                Poll poll = new Poll();
                while (running) {
                    for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
                        task.run();
                    }
                    poll.once(consumer, getName());
                    Set<String> now = new TreeSet<>();
                    for (TopicPartition partition : consumer.assignment()) {
                        now.add(partition.toString());
                    }
                    owned = now;
                    Long pause = assigned ? pauses.poll() : null;
                    assigned = false;
                    if (pause != null) {
                        Thread.sleep(pause);
                    }
                }
                consumer.close();
            } catch (Throwable problem) {
                failure = problem;
                problem.printStackTrace();
            }
        }

        /** Time, member id, generation and partitions, as the consumer itself sees them. */
        String line() throws Exception {
            String id = "";
            String generation = "";
            try {
                Object group = Consumer.class.getMethod("groupMetadata").invoke(consumer);
                id = (String) group.getClass().getMethod("memberId").invoke(group);
                generation = String.valueOf(
                    group.getClass().getMethod("generationId").invoke(group));
            } catch (NoSuchMethodException unknown) {
                // before 2.4
            }
            Set<String> now = new TreeSet<>();
            for (TopicPartition partition : consumer.assignment()) {
                now.add(partition.toString());
            }
            return String.join(" ", String.valueOf(System.currentTimeMillis()), id, generation,
                String.join(",", now));
        }

        String call(Task task) throws Exception {
            CompletableFuture<String> result = new CompletableFuture<>();
            tasks.add(() -> {
                try {
                    result.complete(task.run(consumer));
                } catch (Throwable problem) {
                    result.completeExceptionally(problem);
                }
            });
            return result.get(180, TimeUnit.SECONDS);
        }
    }

    /** {@code poll(long)} until 1.1, {@code poll(Duration)} since 2.0. */
    private static final class Poll {
        private final Method method;
        private final Object timeout;

        Poll() throws Exception {
            Method found = null;
            for (Method method : Consumer.class.getMethods()) {
                if (method.getName().equals("poll")
                        && (found == null || method.getParameterTypes()[0] != long.class)) {
                    found = method;
                }
            }
            method = found;
            timeout = found.getParameterTypes()[0] == long.class
                ? (Object) 50L : java.time.Duration.ofMillis(50);
        }

        void once(Consumer<byte[], byte[]> consumer, String name) throws Throwable {
            try {
                ConsumerRecords<?, ?> records =
                    (ConsumerRecords<?, ?>) method.invoke(consumer, timeout);
                for (TopicPartition partition : records.partitions()) {
                    List<? extends ConsumerRecord<?, ?>> read = records.records(partition);
                    note(name, "read", partition + " " + read.get(0).offset() + " "
                        + read.get(read.size() - 1).offset());
                }
            } catch (java.lang.reflect.InvocationTargetException wrapped) {
                throw wrapped.getCause();
            }
        }
    }

    /** Notes what the consumer owns whenever it is told. */
    private static final class Diary
            implements org.apache.kafka.clients.consumer.ConsumerRebalanceListener {
        private final Member member;

        Diary(Member member) {
            this.member = member;
        }

        @Override
        public void onPartitionsRevoked(java.util.Collection<TopicPartition> partitions) {
            partitions.forEach(partition -> note(member.getName(), "revoked", partition));
        }

        // Since 2.4; before, there is no such method to override.
        public void onPartitionsLost(java.util.Collection<TopicPartition> partitions) {
            partitions.forEach(partition -> note(member.getName(), "lost", partition));
        }

        @Override
        public void onPartitionsAssigned(java.util.Collection<TopicPartition> partitions) {
            partitions.forEach(partition -> note(member.getName(), "assigned", partition));
            member.assigned |= !partitions.isEmpty();
            try {
                member.diary.add(member.line());
            } catch (Exception problem) {
                throw new IllegalStateException(problem);
            }
        }
    }

    private static final class NoListener
            implements org.apache.kafka.clients.consumer.ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(java.util.Collection<TopicPartition> partitions) { }

        @Override
        public void onPartitionsAssigned(java.util.Collection<TopicPartition> partitions) { }
    }
}
