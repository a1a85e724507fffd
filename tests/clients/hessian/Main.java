import com.alibaba.com.caucho.hessian.io.Hessian2Input;
import com.alibaba.com.caucho.hessian.io.Hessian2Output;
import java.io.*;
import java.lang.reflect.*;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;

/** Records are an int of bytes and the bytes: `values` to `again`; `own` has values and texts. */
public class Main {
    public enum Colour { RED, GREEN { public String toString() { return "green"; } } }

    public static class Node implements Serializable {
        public int number;
        public String text;
        public Object next;
    }

    public static class Order extends Node {
        public long total;
        public boolean isPaid;
        public Double discount;
        public Date at;
        public Colour colour;
        public BigDecimal price;
        public byte[] picture;
        public int[] counts;
        public List<Object> lines;
        public Map<String, Object> notes;
    }

    public static class Failure extends RuntimeException {
        public int code;
        public Failure(String message, Throwable cause) { super(message, cause); }
    }

    static byte[] write(Object value) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        Hessian2Output out = new Hessian2Output(bytes);
        out.writeObject(value);
        out.flush();
        return bytes.toByteArray();
    }

    static void record(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    // A value as text. Lists, maps and objects are numbered as they are met, and met once.
    static class Printer {
        final StringBuilder out = new StringBuilder();
        final Map<Object, Integer> met = new IdentityHashMap<>();

        void hex(String kind, int length, java.util.function.IntUnaryOperator at, int digits) {
            out.append(kind);
            for (int n = 0; n < length; n++)
                for (int digit = digits - 1; digit >= 0; digit--)
                    out.append(Character.forDigit(at.applyAsInt(n) >> 4 * digit & 15, 16));
        }

        boolean meet(Object value) {
            Integer number = met.putIfAbsent(value, met.size());
            if (number != null) out.append('#').append(number);
            return number != null;
        }

        void print(Object value) throws Exception {
            if (value == null) out.append("null");
            else if (value instanceof Boolean) out.append(value);
            else if (value instanceof Integer || value instanceof Short || value instanceof Byte)
                out.append('i').append(value);
            else if (value instanceof Long) out.append('l').append(value);
            else if (value instanceof Double) {
                double number = (Double) value;
                long bits = Double.doubleToLongBits(number == 0 ? 0.0 : number);
                out.append('d').append(Long.toHexString(bits));
            } else if (value instanceof Date) out.append('t').append(((Date) value).getTime());
            else if (value instanceof Character) print(value.toString());
            else if (value instanceof char[]) print(new String((char[]) value));
            else if (value instanceof String) {
                String text = (String) value;
                hex("s", text.length(), text::charAt, 4);
            } else if (value instanceof byte[]) {
                byte[] bytes = (byte[]) value;
                hex("b", bytes.length, n -> bytes[n] & 0xff, 2);
            } else if (!meet(value)) compound(value);
        }

        void compound(Object value) throws Exception {
            Class<?> type = value.getClass();
            if (type.isArray()) {
                out.append(arrayType(type)).append('[');
                for (int n = 0; n < Array.getLength(value); n++) {
                    print(Array.get(value, n));
                    out.append(',');
                }
                out.append(']');
            } else if (value instanceof Collection) {
                out.append(type == ArrayList.class ? "" : type.getName()).append('[');
                for (Object element : (Collection<?>) value) {
                    print(element);
                    out.append(',');
                }
                out.append(']');
            } else if (value instanceof Map) {
                out.append(type == HashMap.class ? "" : type.getName()).append('{');
                for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                    print(entry.getKey());
                    out.append('=');
                    print(entry.getValue());
                    out.append(',');
                }
                out.append('}');
            } else object(value, type);
        }

        void object(Object value, Class<?> type) throws Exception {
            SortedMap<String, Object> fields = new TreeMap<>();
            if (value instanceof Enum) {
                type = ((Enum<?>) value).getDeclaringClass();
                fields.put("name", ((Enum<?>) value).name());
            } else if (value instanceof BigDecimal) fields.put("value", value.toString());
            else
                for (Class<?> of = type; of != null; of = of.getSuperclass())
                    for (Field field : of.getDeclaredFields()) {
                        int modifiers = field.getModifiers();
                        if (Modifier.isStatic(modifiers) || Modifier.isTransient(modifiers)) continue;
                        field.setAccessible(true);
                        fields.put(field.getName(), field.get(value));
                    }
            out.append(type.getName()).append('(');
            for (Map.Entry<String, Object> field : fields.entrySet()) {
                out.append(field.getKey()).append('=');
                print(field.getValue());
                out.append(',');
            }
            out.append(')');
        }

        static String arrayType(Class<?> type) {
            if (type.isArray()) return '[' + arrayType(type.getComponentType());
            if (type == String.class) return "string";
            if (type == Object.class) return "object";
            return type == Date.class ? "date" : type.getName();
        }
    }

    static class Generator {
        final Random random;
        final List<Object> earlier = new ArrayList<>();

        Generator(long seed) { random = new Random(seed); }

        String text() {
            int[] lengths = {0, 3, 31, 32, 300, 1023, 1024};
            int length = lengths[random.nextInt(lengths.length)];
            if (random.nextInt(60) == 0) length = 32_700 + random.nextInt(40_000);
            StringBuilder out = new StringBuilder();
            int kind = random.nextInt(3);
            while (out.length() < length)
                out.appendCodePoint(switch (kind == 0 ? 0 : random.nextInt(4)) {
                    case 0 -> random.nextInt(0x80);
                    case 1 -> 0x80 + random.nextInt(0x700);
                    case 2 -> 0x4e00 + random.nextInt(0x4000);
                    default -> 0x1f300 + random.nextInt(0x300);
                });
            return out.toString();
        }

        long number() { return random.nextLong() >> random.nextInt(64); }

        double fraction() {
            return switch (random.nextInt(5)) {
                case 0 -> (double) number();
                case 1 -> 0.001 * random.nextInt();
                case 2 -> Double.longBitsToDouble(random.nextLong());
                case 3 -> -0.0;
                default -> random.nextInt(300) - 150;
            };
        }

        Date date() { return new Date(random.nextBoolean() ? number() : random.nextInt() * 60_000L); }

        byte[] bytes() {
            byte[] bytes = new byte[random.nextInt(20) == 0 ? random.nextInt(50_000) : random.nextInt(40)];
            random.nextBytes(bytes);
            return bytes;
        }

        <T> T begun(T value) {
            earlier.add(value);
            return value;
        }

        Object value(int depth) {
            int kind = random.nextInt(depth > 4 ? 9 : 22);
            switch (kind) {
                case 0: return null;
                case 1: return random.nextBoolean();
                case 2: return (int) number();
                case 3: return number();
                case 4: return fraction();
                case 5: return date();
                case 6: return text();
                case 7: return bytes();
                case 8: return earlier.isEmpty() ? null : earlier.get(random.nextInt(earlier.size()));
                case 9: return begun(Colour.values()[random.nextInt(2)]);
                case 10: return begun(new BigDecimal(number()).movePointLeft(random.nextInt(9)));
                case 11: return begun(random.ints(random.nextInt(10)).toArray());
                case 12: return begun(random.longs(random.nextInt(10)).toArray());
                case 13: return begun(new String[] {text(), null, "a"});
                case 14: return begun(new Date[] {date(), null});
                case 15: return begun(new boolean[] {true, false});
                case 16: return begun(new int[][] {{1, 2}, {}, null});
                case 17: return begun(new HashSet<>(List.of(number(), text(), fraction() + 1)));
                case 18: return order(depth);
                case 19: return map(depth);
                case 20: return failure(depth);
                default: return list(depth);
            }
        }

        Object list(int depth) {
            if (random.nextInt(4) == 0) {
                Object[] array = begun(new Object[random.nextInt(10)]);
                for (int n = 0; n < array.length; n++) array[n] = value(depth + 1);
                return array;
            }
            List<Object> list = begun(random.nextBoolean() ? new ArrayList<>() : new LinkedList<>());
            for (int n = random.nextInt(12); n > 0; n--) list.add(value(depth + 1));
            return list;
        }

        Map<String, Object> map(int depth) {
            Map<String, Object> map = begun(switch (random.nextInt(3)) {
                case 0 -> new HashMap<>();
                case 1 -> new TreeMap<>();
                default -> new LinkedHashMap<>();
            });
            for (int n = random.nextInt(6); n > 0; n--) map.put(text(), value(depth + 1));
            return map;
        }

        Object order(int depth) {
            Order order = begun(new Order());
            order.number = (int) number();
            order.text = random.nextBoolean() ? text() : null;
            order.next = value(depth + 1);
            order.total = number();
            order.discount = random.nextBoolean() ? fraction() : null;
            order.at = random.nextBoolean() ? date() : null;
            order.colour = Colour.GREEN;
            order.price = new BigDecimal("12.50");
            order.picture = bytes();
            order.counts = new int[] {1, 2, 3};
            order.lines = new ArrayList<>(List.of("a", 1, order.price));
            order.notes = map(depth + 1);
            return order;
        }

        Object failure(int depth) {
            Throwable cause = random.nextBoolean() ? new IllegalStateException(text()) : null;
            Failure failure = new Failure(text(), cause);
            failure.code = (int) number();
            // Else a cause of none is the exception itself.
            return begun(failure);
        }
    }

    public static void main(String[] args) throws Exception {
        int count = 0;
        try (DataInputStream in = new DataInputStream(
                new BufferedInputStream(Files.newInputStream(Path.of("values"))));
             DataOutputStream again = new DataOutputStream(
                new BufferedOutputStream(Files.newOutputStream(Path.of("again"))))) {
            for (; in.available() > 0; count++) {
                byte[] bytes = in.readNBytes(in.readInt());
                record(again, write(new Hessian2Input(new ByteArrayInputStream(bytes)).readObject()));
            }
        }
        try (DataOutputStream own = new DataOutputStream(
                new BufferedOutputStream(Files.newOutputStream(Path.of("own"))))) {
            for (int seed = 0; seed < 2000; seed++) {
                Object value = new Generator(seed).value(0);
                record(own, write(value));
                Printer printer = new Printer();
                printer.print(value);
                record(own, printer.out.toString().getBytes(StandardCharsets.UTF_8));
            }
        }
        System.out.println(count + " values of Weir's, 2000 of hessian-lite's own");
    }
}
