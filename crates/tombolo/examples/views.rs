//! Blocks of a cache that one host makes and another looks at where they lie, without a copy, while
//! they are replaced.
//!
//! `cargo run --release -p tombolo --example views`

use std::time::Instant;

use tombolo::{CreateOptions, Objects};

const POD: &str = "/dev/shm/tombolo-example-views";
const BLOCKS: u8 = 16;
const BYTES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tombolo::create(POD, CreateOptions::sized(128 << 20).forced())?;
    // Two hosts in one process, for the sake of a short example; they share nothing but the pod.
    let (maker, user) = (Objects::join(POD)?, Objects::join(POD)?);
    for number in 0..BLOCKS {
        maker.create(&key(number), &vec![number; BYTES])?;
    }

    let mut fastest = f64::MAX;
    for round in 0..100u32 {
        let number = round as u8 % BLOCKS;
        let started = Instant::now();
        let view = user.view(&key(number))?.ok_or("the block is gone")?;
        fastest = fastest.min(started.elapsed().as_secs_f64());

        // A host that replaces the block does not wait for the one that views it, which sees the
        // old block.
        let (old, new) = (view.bytes()[0], number.wrapping_add(round as u8));
        maker.put(&key(number), &vec![new; BYTES])?;
        assert!(view.bytes().iter().all(|&byte| byte == old), "a view stays as it is");
        view.end()?;

        let again = user.view(&key(number))?.ok_or("the block is gone")?;
        assert_eq!(again.bytes()[BYTES - 1], new, "a new view shows the new block");
    }
    println!("a view of a block of 1 MiB took {:.2} µs, the fastest of 100", fastest * 1e6);

    user.leave()?;
    maker.leave()?;
    Ok(std::fs::remove_file(POD)?)
}

fn key(number: u8) -> Vec<u8> {
    format!("block:{number}").into_bytes()
}
