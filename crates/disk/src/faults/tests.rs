use std::fs;
use std::io::Write as _;

use crate::{Disk, Faults};

#[test]
fn a_loss_of_power_takes_what_was_not_synced_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::counting();
    let disk = Disk::with(faults.clone());
    let [kept, cut, lost] = ["kept", "cut", "lost"].map(|name| dir.path().join(name));
    let mut streams = [&kept, &cut].map(|path| disk.create(path).unwrap());
    for stream in &mut streams {
        stream.write_all(&[1; 5000]).unwrap();
        stream.sync().unwrap();
    }
    streams[1].write_all(&[2; 9000]).unwrap();
    let at = disk.make(&lost).unwrap();
    disk.write_all(&at, &[b"lost"], 0).unwrap();
    faults.lose_power(|| false).unwrap();
    assert_eq!(fs::read(&kept).unwrap(), [1; 5000]);
    assert_eq!(fs::read(&cut).unwrap(), [1; 5000]);
    assert_eq!(fs::read(&lost).unwrap(), b"");
    assert!(disk.rename(&kept, &lost).is_err(), "nothing reaches the disk any more");
}

#[test]
fn a_process_dies_amid_any_step_whichever_way_a_file_is_written() {
    let run = |faults: &Faults| {
        let dir = tempfile::tempdir().unwrap();
        let (disk, path) = (Disk::with(faults.clone()), dir.path().join("a"));
        let done = (|| {
            let mut stream = disk.create(&path)?;
            stream.write_all(b"abcd")?;
            stream.sync()?;
            disk.write_all(&stream.file, &[b"ef", b"gh"], 4)?;
            disk.rename(&path, &dir.path().join("b"))
        })();
        let left = fs::read(&path).or_else(|_| fs::read(dir.path().join("b")));
        (done.is_ok(), left.unwrap_or_default())
    };
    let faults = Faults::counting();
    assert_eq!(run(&faults), (true, b"abcdefgh".to_vec()));
    let steps = ["create a", "write a", "sync a", "write a", "rename b"];
    assert_eq!(faults.steps(), steps);
    for (step, left) in [(0, &b""[..]), (1, b"ab"), (2, b"abcd"), (3, b"abcdef"), (4, b"abcdefgh")]
    {
        let faults = Faults::counting();
        faults.die_at(step);
        assert_eq!(run(&faults), (false, left.to_vec()), "{step}");
        assert!(faults.is_dead());
    }
    for step in [0, 1, 3] {
        let faults = Faults::counting();
        faults.no_room(step, 1);
        assert!(!run(&faults).0, "{step}");
    }
}
