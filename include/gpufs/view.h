/* Files as arrays: a kernel indexes a mapped file, and pages come to device memory when they are needed (mmap(2)). For
 * CUDA and HIP kernels and for CPU lanes.
 *
 * The host gives the session memory for pages (cache_bytes of gpufs_options), maps a file (gpufs_host_map) and hands the
 * mapping to kernels.
 *
 *     __global__ void sum(gpufs_session *fs, gpufs_mapping numbers, uint64_t count, unsigned long long *into) {
 *         gpufs::view<double> v(fs, numbers);
 *         for (uint64_t i = gpufs_thread(); i < count; i += gpufs_threads()) {
 *             auto x = v[i];
 *             if (x.error() == 0) { ... x.value() ... }
 *         }
 *     }
 *
 * A number that is loaded costs a few loads where its page is there, and one where all of the file is: a view in C++ finds
 * that out when it is made, in C gpufs_view_whole gives a pointer. A thread that looks at many numbers of a page pins it,
 * and has a pointer to them: gpufs_view_pin, in C++ gpufs::pin. Threads of a warp that miss the same page read it once, and
 * the pages that a warp misses together are one batch.
 *
 *     mmap      gpufs_view_pin: bytes of one page, for reading; gpufs_view_whole: all of a file, where that is there
 *     munmap    gpufs_view_unpin
 *     msync     gpufs_view_flush (every store that came before it is in the file, for all to read), gpufs_view_sync (on its
 *               device)
 *     madvise   gpufs_view_prefetch (MADV_WILLNEED)
 *
 * What other readers and writers of the file see, and when, is in the documentation of gpufs_device::view: in short, a
 * page is as it was read when it came; stores are in the file after a flush, gpufs_host_synchronize, or when the page had
 * to go, whole; a GPU that faults loses those that are not.
 *
 * `offset` is in bytes from the start of the file, and a multiple of the number's size. Errors of every call: EINVAL (a
 * null session, an offset or a size that is none), EBADF (the mapping is of no file any more), EOPNOTSUPP (the caller is
 * no thread of the session's kernels), ENXIO (the file has no such bytes), and what reading the page met, or writing
 * another that had to go first.
 */
#ifndef GPUFS_VIEW_H
#define GPUFS_VIEW_H

#include <gpufs/raw.h>

/* Loads the number of `bytes` bytes, 1, 2, 4, 8 or 16, at `offset` to `into`; of a mapping for writing 4 or 8. 0, or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_view_get(gpufs_session *session, gpufs_mapping mapping, uint64_t offset, void *into, size_t bytes) {
    return gpufs_int_(gpufs_raw_view_get(session, mapping.number_, offset, into, bytes));
}
/* Stores the number of `bytes` bytes, 4 or 8, whole. 0, or -1: EACCES for a mapping for reading. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_view_set(gpufs_session *session, gpufs_mapping mapping, uint64_t offset, const void *from, size_t bytes) {
    return gpufs_int_(gpufs_raw_view_set(session, mapping.number_, offset, from, bytes));
}
/* Adds to the number of `bytes` bytes, 4 or 8, as one step among those of all threads, wrapping around; what it was goes to
 * `before`, which may be null. 0, or -1: EACCES. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_view_add(gpufs_session *session, gpufs_mapping mapping, uint64_t offset, uint64_t value, void *before,
               size_t bytes) {
    return gpufs_int_(gpufs_raw_view_add(session, mapping.number_, offset, value, before, bytes));
}
/* Where `bytes` bytes lie that are in one page of a mapping for reading. The page stays until gpufs_view_unpin, which each
 * thread calls for itself. Null: EBUSY where too many pages are kept (any 7 may be, more as they fall), EACCES for a mapping
 * for writing, EINVAL also where they lie in two pages. */
GPUFS_INLINE GPUFS_RESULT(const void *)
gpufs_view_pin(gpufs_session *session, gpufs_mapping mapping, uint64_t offset, size_t bytes) {
    int64_t raw = gpufs_raw_view_pin(session, mapping.number_, offset, bytes);
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(const void *, error != 0 ? (const void *)0 : (const void *)(uintptr_t)raw, error);
}
/* Lets go of a page that gpufs_view_pin gave. 0, or -1: EINVAL for what is no address of a page that is kept. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_view_unpin(gpufs_session *session, const void *at) {
    return gpufs_int_(gpufs_raw_view_unpin(session, at));
}
/* Where the bytes of a mapping for reading from `offset` on lie, if all of the file is in device memory and stays there: so
 * it does where the cache had room for all of it when it was mapped, once every page was touched. They may be loaded as
 * any other memory while the kernel runs; `*bytes` says how many there are. Null, with 0 bytes, where the file is not, or
 * not yet, there as a whole: error number 0 then. Null: EACCES for a mapping for writing. */
GPUFS_INLINE GPUFS_RESULT(const void *)
gpufs_view_whole(gpufs_session *session, gpufs_mapping mapping, uint64_t offset, uint64_t *bytes) {
    uint64_t count = 0;
    int64_t raw = gpufs_raw_view_whole(session, mapping.number_, offset, &count);
    int error = gpufs_error_of_(raw);
    if (bytes != 0) {
        *bytes = count;
    }
    GPUFS_RETURN(const void *, error != 0 ? (const void *)0 : (const void *)(uintptr_t)raw, error);
}
/* Writes every page of the mapping that was stored to, by any thread. 0, or -1: EACCES, and what a write met. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_view_flush(gpufs_session *session, gpufs_mapping mapping) {
    return gpufs_int_(gpufs_raw_view_flush(session, mapping.number_, 0));
}
/* gpufs_view_flush, and then fdatasync(2). */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_view_sync(gpufs_session *session, gpufs_mapping mapping) {
    return gpufs_int_(gpufs_raw_view_flush(session, mapping.number_, 1));
}
/* Has the system read bytes of a mapping for reading ahead, and does not wait. 0, or -1: EACCES. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_view_prefetch(gpufs_session *session, gpufs_mapping mapping, uint64_t offset, uint64_t bytes) {
    return gpufs_int_(gpufs_raw_view_prefetch(session, mapping.number_, offset, bytes));
}

#ifdef __cplusplus

namespace gpufs {

/* Elements of one page, which stays as long as this. False where it could not be had: error() says why. */
template <class T>
class pin {
  public:
    GPUFS_BOTH pin(Session session, gpufs_mapping mapping, uint64_t offset, size_t count)
        : session_(session), at_(nullptr), count_(count), error_(0) {
        Result<const void *> found = gpufs_view_pin(session, mapping, offset, count * sizeof(T));
        at_ = static_cast<const T *>(found.value());
        error_ = found.error();
    }
    pin(const pin &) = delete;
    pin &operator=(const pin &) = delete;
    GPUFS_BOTH pin(pin &&other) : session_(other.session_), at_(other.at_), count_(other.count_), error_(other.error_) {
        other.at_ = nullptr;
    }
    GPUFS_BOTH ~pin() {
        if (at_ != nullptr) {
            (void)gpufs_view_unpin(session_, at_);
        }
    }
    GPUFS_BOTH explicit operator bool() const { return at_ != nullptr; }
    GPUFS_BOTH int error() const { return error_; }
    GPUFS_BOTH size_t size() const { return count_; }
    GPUFS_BOTH const T *data() const { return at_; }
    GPUFS_BOTH const T *begin() const { return at_; }
    GPUFS_BOTH const T *end() const { return at_ + (at_ != nullptr ? count_ : 0); }
    GPUFS_BOTH const T &operator[](size_t index) const { return at_[index]; }

  private:
    Session session_;
    const T *at_;
    size_t count_;
    int error_;
};

/* Elements of a mapped file, from `offset` on, in bytes: numbers, and plain structures of 1, 2, 4, 8 or 16 bytes. */
template <class T>
class view {
    static_assert(sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0, "an element has 1, 2, 4, 8 or 16 bytes");

  public:
    GPUFS_BOTH view(Session session, gpufs_mapping mapping, uint64_t offset = 0)
        : session_(session), mapping_(mapping), offset_(offset), there_(0), at_(nullptr) {
        uint64_t bytes = 0;
        const int64_t found = gpufs_raw_view_whole(session, mapping.number_, offset, &bytes);
        if (gpufs_error_of_(found) == 0 && offset % sizeof(T) == 0) {
            at_ = reinterpret_cast<const T *>(static_cast<uintptr_t>(found));
            there_ = bytes / sizeof(T);
        }
    }

    /* The element, with the error number. */
    GPUFS_BOTH Result<T> operator[](uint64_t index) const {
        if (index < there_) {
            return Result<T>(at_[index], 0);
        }
        T value = T();
        const int error = gpufs_view_get(session_, mapping_, at(index), &value, sizeof(T)).error();
        return Result<T>(value, error);
    }
    /* Stores an element of 4 or 8 bytes. */
    GPUFS_BOTH Result<int> set(uint64_t index, T value) const {
        return gpufs_view_set(session_, mapping_, at(index), &value, sizeof(T));
    }
    /* Adds to an integer of 4 or 8 bytes; what it was. */
    GPUFS_BOTH Result<T> add(uint64_t index, T value) const {
        T before = T();
        const int error =
            gpufs_view_add(session_, mapping_, at(index), static_cast<uint64_t>(value), &before, sizeof(T)).error();
        return Result<T>(before, error);
    }
    /* Elements of one page. */
    GPUFS_BOTH gpufs::pin<T> pin(uint64_t first, size_t count) const {
        return gpufs::pin<T>(session_, mapping_, at(first), count);
    }
    GPUFS_BOTH Result<int> prefetch(uint64_t first, uint64_t count) const {
        return gpufs_view_prefetch(session_, mapping_, at(first), count * sizeof(T));
    }
    GPUFS_BOTH Result<int> flush() const { return gpufs_view_flush(session_, mapping_); }
    GPUFS_BOTH Result<int> sync() const { return gpufs_view_sync(session_, mapping_); }

  private:
    GPUFS_BOTH uint64_t at(uint64_t index) const { return offset_ + index * sizeof(T); }

    Session session_;
    gpufs_mapping mapping_;
    uint64_t offset_;
    /* Elements that are in device memory and stay there, and where the first is. */
    uint64_t there_;
    const T *at_;
};

} /* namespace gpufs */

#endif

#endif
