//! A profile taken from a busy process, read by `go tool pprof` where that is installed.

use std::io::Read as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use watch::profile::{ProfileError, cpu};

#[inline(never)]
fn burn_cycles(until: &AtomicBool) -> u64 {
    let mut x = 1_u64;
    while !until.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).rotate_left(7));
        }
    }
    x
}

#[tokio::test]
async fn a_profile_names_what_is_busy() {
    let stop = Arc::new(AtomicBool::new(false));
    let burning = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || burn_cycles(&stop)
    });
    // The second is asked for while the first runs.
    let (profile, second) = tokio::join!(cpu(1, 199), cpu(1, 99));
    let profile = profile.unwrap();
    stop.store(true, Ordering::Relaxed);
    burning.join().unwrap();
    assert!(matches!(second, Err(ProfileError::Busy)));

    let mut plain = Vec::new();
    let mut unpacked = flate2::read::GzDecoder::new(&profile[..]);
    unpacked.read_to_end(&mut plain).unwrap();
    let name = b"burn_cycles";
    assert!(plain.windows(name.len()).any(|w| w == name));

    let file = std::env::temp_dir().join(format!("weir-profile-{}.pb.gz", std::process::id()));
    std::fs::write(&file, &profile).unwrap();
    let top = Command::new("go").args(["tool", "pprof", "-top"]).arg(&file).output();
    std::fs::remove_file(&file).unwrap();
    if let Ok(top) = top {
        let text = String::from_utf8_lossy(&top.stdout);
        assert!(top.status.success(), "{}", String::from_utf8_lossy(&top.stderr));
        assert!(text.contains("burn_cycles"), "{text}");
        println!("{text}");
    }
}

#[tokio::test]
async fn odd_arguments_are_refused() {
    for (seconds, hz) in [(0, 99), (301, 99), (1, 0), (1, 1001)] {
        assert!(matches!(cpu(seconds, hz).await, Err(ProfileError::Range)));
    }
}
