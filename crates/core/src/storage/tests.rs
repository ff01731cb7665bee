//! Storages: their memory, and who may use it at once.

use super::*;

fn locks<'a>(reads: &[&'a Storage], writes: &[&'a Storage]) -> Result<Access<'a>> {
    let mut access = Access::new();
    reads.iter().for_each(|storage| access.add(storage, false));
    writes.iter().for_each(|storage| access.add(storage, true));
    access.lock()?;
    Ok(access)
}

#[test]
fn slices_exclude_writers_and_kernels() {
    let storage = Storage::allocate(16, Device::CPU).unwrap();
    let reader = storage.borrow().unwrap();
    let second = storage.borrow().unwrap();
    assert!(storage.borrow_mut().is_err());
    assert!(locks(&[&storage], &[]).is_ok());
    assert!(locks(&[], &[&storage]).is_err());
    assert!(storage.grow(1024).is_err());
    drop((reader, second));
    let writer = storage.borrow_mut().unwrap();
    assert!(locks(&[&storage], &[]).is_err());
    drop(writer);
    assert_eq!(storage.version(), 1);
    storage.grow(4096).unwrap();
    assert_eq!(storage.nbytes(), 4096);
}

#[test]
fn one_storage_as_input_and_output_is_locked_once() {
    let storage = Storage::allocate(16, Device::CPU).unwrap();
    drop(locks(&[&storage, &storage], &[&storage]).unwrap());
    drop(locks(&[], &[&storage]).unwrap());
}

#[test]
fn small_storages_lie_on_cache_lines_and_keep_their_bytes_when_they_grow() {
    let ends = StorageImpl::ROOM - 1..=StorageImpl::ROOM + 1;
    for nbytes in ends.chain([1, 1024, 1025, 5000]) {
        let storage = Storage::allocate(nbytes, Device::CPU).unwrap();
        assert_eq!(storage.data_ptr() as usize % blocks::ALIGN, 0, "{nbytes} bytes");
        let bytes: Vec<u8> = (0..nbytes).map(|i| i as u8).collect();
        storage.borrow_mut().unwrap().bytes_mut().copy_from_slice(&bytes);
        storage.grow(2 * nbytes).unwrap();
        assert_eq!(storage.nbytes(), 2 * nbytes);
        assert_eq!(storage.borrow().unwrap().bytes()[..nbytes], bytes);
    }
}

#[test]
fn vectors_with_and_without_spare_room_are_dropped_once() {
    for spare in [0, 7] {
        let mut values = Vec::with_capacity(3 + spare);
        values.extend([1u64, 2, 3]);
        let storage = Storage::from_vec(values);
        assert_eq!((storage.nbytes(), storage.resizable()), (24, false));
        assert_eq!(storage.borrow().unwrap().bytes()[8], 2);
    }
    assert_eq!(Storage::from_vec(Vec::<u8>::new()).nbytes(), 0);
}

#[test]
fn a_vector_becomes_a_storage_without_a_copy() {
    let values = vec![1.0f32, 2.0];
    let address = values.as_ptr() as usize;
    let storage = Storage::from_vec(values);
    assert_eq!(storage.data_ptr() as usize, address);
    assert_eq!(storage.nbytes(), 8);
    assert!(storage.grow(100).is_err());
}
