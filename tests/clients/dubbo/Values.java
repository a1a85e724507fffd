package weir.test;

import java.util.Date;
import java.util.List;
import java.util.Map;

/** What the methods of the service take and give. */
public interface Values {
    enum Color { RED, GREEN, BLUE }

    /** An object with others in it, and with itself where somebody puts it there. */
    class Person implements java.io.Serializable {
        private static final long serialVersionUID = 1;
        public String name;
        public int age;
        public long number;
        public double weight;
        public boolean active;
        public Color color;
        public Date born;
        public List<String> tags;
        public Map<String, Object> more;
        public Person friend;

        public String getName() { return name; }
        public void setName(String name) { this.name = name; }
        public int getAge() { return age; }
        public void setAge(int age) { this.age = age; }
        public long getNumber() { return number; }
        public void setNumber(long number) { this.number = number; }
        public double getWeight() { return weight; }
        public void setWeight(double weight) { this.weight = weight; }
        public boolean isActive() { return active; }
        public void setActive(boolean active) { this.active = active; }
        public Color getColor() { return color; }
        public void setColor(Color color) { this.color = color; }
        public Date getBorn() { return born; }
        public void setBorn(Date born) { this.born = born; }
        public List<String> getTags() { return tags; }
        public void setTags(List<String> tags) { this.tags = tags; }
        public Map<String, Object> getMore() { return more; }
        public void setMore(Map<String, Object> more) { this.more = more; }
        public Person getFriend() { return friend; }
        public void setFriend(Person friend) { this.friend = friend; }

        @Override
        public String toString() {
            return name + " " + age + " " + number + " " + weight + " " + active + " " + color + " "
                + (born == null ? "-" : Long.toString(born.getTime())) + " " + tags + " "
                + more + " " + (friend == this ? "itself" : friend);
        }
    }

    /** What no method of the service names. */
    class Stranger implements java.io.Serializable {
        private static final long serialVersionUID = 1;
        public String name;

        @Override
        public String toString() { return "a stranger called " + name; }
    }

    /** An exception of the service's own. */
    class OwnException extends Exception {
        private static final long serialVersionUID = 1;
        private final int code;

        public OwnException(String message, int code) {
            super(message);
            this.code = code;
        }

        public int getCode() { return code; }
    }
}
