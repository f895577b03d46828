use crate::generator::{Shape, linearizable};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tombolo_verify::history::History;
use tombolo_verify::linearizability::check;
use tombolo_verify::models::KeyValue;

#[test]
fn measure() {
    for (keys, doubt) in [(10_000, 0), (10_000, 1), (1, 0)] {
        let shape = Shape {
            clients: 8,
            operations_per_client: 125_000,
            keys,
            values: 1 << 40,
            ticks: 100,
            failed_percent: 1,
            in_doubt_percent: doubt,
        };
        let log = linearizable(&mut ChaCha8Rng::seed_from_u64(1), &shape);
        let history = History::new(log).unwrap();
        let t = std::time::Instant::now();
        let v = check(&KeyValue::default(), &history, 10_000_000);
        println!("keys {keys} doubt {doubt} {:?} {v}", t.elapsed());
    }
}
#[test]
fn measure2() {
    for clients in [4, 8, 12, 16, 24] {
        for doubt in [2, 5, 10] {
            let mut explored = vec![];
            let t = std::time::Instant::now();
            for seed in 0..5 {
                let shape = Shape {
                    clients,
                    operations_per_client: 8000 / clients,
                    keys: 1,
                    values: 1 << 40,
                    ticks: 100,
                    failed_percent: 1,
                    in_doubt_percent: doubt,
                };
                let log = linearizable(&mut ChaCha8Rng::seed_from_u64(seed), &shape);
                let v = check(&KeyValue::default(), &History::new(log).unwrap(), 1_000_000);
                explored.push(v.to_string().chars().take(24).collect::<String>());
            }
            println!("{clients} {doubt} {:?} {explored:?}", t.elapsed());
        }
    }
}
