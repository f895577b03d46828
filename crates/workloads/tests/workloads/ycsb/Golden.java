// Prints what YCSB's own generators choose, for equal draws: golden.txt beside this file.
//
// javac -cp core-0.17.0.jar Golden.java
// java --add-opens java.base/java.lang=ALL-UNNAMED -cp core-0.17.0.jar:. Golden > golden.txt
//
// YCSB draws from the thread's own generator, which has no seed to give. So the state of that
// generator is set before each draw.

import java.lang.reflect.Field;
import java.util.concurrent.ThreadLocalRandom;
import site.ycsb.generator.CounterGenerator;
import site.ycsb.generator.NumberGenerator;
import site.ycsb.generator.ScrambledZipfianGenerator;
import site.ycsb.generator.SkewedLatestGenerator;

public class Golden {
  private static final int DRAWS = 200;
  private static sun.misc.Unsafe unsafe;
  private static long seedOffset;

  public static void main(String[] arguments) throws Exception {
    Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
    field.setAccessible(true);
    unsafe = (sun.misc.Unsafe) field.get(null);
    seedOffset = unsafe.objectFieldOffset(Thread.class.getDeclaredField("threadLocalRandomSeed"));
    for (long items : new long[] {1000, 24_000_000}) {
      System.out.println("scrambled " + items);
      print(new ScrambledZipfianGenerator(0, items - 1, 0.99));
    }
    System.out.println("latest 1000");
    print(new SkewedLatestGenerator(new CounterGenerator(1000)));
  }

  private static void print(NumberGenerator generator) {
    for (int draw = 0; draw < DRAWS; draw++) {
      seed(draw);
      double unit = ThreadLocalRandom.current().nextDouble();
      seed(draw);
      Number chosen = generator.nextValue();
      System.out.println(Long.toHexString(Double.doubleToRawLongBits(unit)) + " " + chosen);
    }
  }

  private static void seed(int draw) {
    ThreadLocalRandom.current();
    unsafe.putLong(Thread.currentThread(), seedOffset, draw * 7919L + 1);
  }
}
