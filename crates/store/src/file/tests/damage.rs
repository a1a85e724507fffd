use std::sync::Arc;

use super::*;
use crate::file::Verified;
use crate::scan::ScanRequest;

fn read_all(file: &Arc<StoredFile>) -> Result<usize, crate::scan::ScanError> {
    let fields = FIELDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let request =
        ScanRequest { measurement: "m".into(), time: TimeRange::ALL, fields, descending: false };
    let ids: Arc<[SeriesId]> = (0..4).map(|number| series(number).id).collect();
    let scan = file.scan(ids, Arc::new(request), &[], Arc::new(TestNames));
    scan.map(|ranked| Ok(ranked?.chunk.times.len())).sum()
}

fn small() -> Model {
    let points = || (0..300).map(|n| (n * n, [Some(n as i32); 5])).collect();
    (0..4).map(|number| (number, points())).collect()
}

#[test]
fn a_flipped_bit_anywhere_is_found_and_never_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = store(dir.path(), 1, &small());
    assert_eq!(read_all(&file).unwrap(), 1200);
    for path in [file.path(), file.info.sidecar_path(dir.path())] {
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 150 + 1) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, &bytes).unwrap();
            let open = Arc::new(OpenFiles::new(1 << 20));
            let again =
                Arc::new(StoredFile::new(dir.path(), file.info.clone(), &Disk::default(), &open));
            assert!(matches!(again.verify(), Verified::Damaged(_)), "{path:?} at {at}");
            assert_eq!(open.take_damage().len(), 1);
            // What is read without that byte is right.
            if let Ok(rows) = read_all(&again) {
                assert_eq!(rows, 1200);
            }
        }
        for len in [0, 3, 10, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..len]).unwrap();
            let open = Arc::new(OpenFiles::new(1 << 20));
            let again =
                Arc::new(StoredFile::new(dir.path(), file.info.clone(), &Disk::default(), &open));
            assert!(matches!(again.verify(), Verified::Damaged(_)));
            assert!(read_all(&again).is_err());
        }
        std::fs::write(&path, &whole).unwrap();
    }
}
