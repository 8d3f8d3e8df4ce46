/* Asynchronous operations from C on CPU lanes: what each call does, then each wrong use. Runs in a scratch directory. */
#include "check.h"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpufs/aio.h>
#include <gpufs/file.h>
#include <gpufs/gpufs.h>
#include <gpufs/host.h>

/* The system's own structure, field by field. */
GPUFS_STATIC_ASSERT_(sizeof(struct aiocb) == sizeof(gpufs_aiocb), "struct aiocb is Linux's");
GPUFS_STATIC_ASSERT_(offsetof(struct aiocb, aio_fildes) == offsetof(gpufs_aiocb, aio_fildes), "aio_fildes");
GPUFS_STATIC_ASSERT_(offsetof(struct aiocb, aio_lio_opcode) == offsetof(gpufs_aiocb, aio_lio_opcode), "aio_lio_opcode");
GPUFS_STATIC_ASSERT_(offsetof(struct aiocb, aio_reqprio) == offsetof(gpufs_aiocb, aio_reqprio), "aio_reqprio");
GPUFS_STATIC_ASSERT_(offsetof(struct aiocb, aio_buf) == offsetof(gpufs_aiocb, aio_buf), "aio_buf");
GPUFS_STATIC_ASSERT_(offsetof(struct aiocb, aio_nbytes) == offsetof(gpufs_aiocb, aio_nbytes), "aio_nbytes");
GPUFS_STATIC_ASSERT_(offsetof(struct aiocb, aio_sigevent) == offsetof(gpufs_aiocb, aio_sigevent), "aio_sigevent");
GPUFS_STATIC_ASSERT_(offsetof(struct aiocb, aio_offset) == offsetof(gpufs_aiocb, aio_offset), "aio_offset");
GPUFS_STATIC_ASSERT_(offsetof(struct sigevent, sigev_signo) == offsetof(gpufs_sigevent, sigev_signo), "sigev_signo");
GPUFS_STATIC_ASSERT_(offsetof(struct sigevent, sigev_notify) == offsetof(gpufs_sigevent, sigev_notify), "sigev_notify");
GPUFS_STATIC_ASSERT_(AIO_CANCELED == GPUFS_AIO_CANCELED && AIO_NOTCANCELED == GPUFS_AIO_NOTCANCELED, "AIO_");
GPUFS_STATIC_ASSERT_(AIO_ALLDONE == GPUFS_AIO_ALLDONE, "AIO_ALLDONE");
GPUFS_STATIC_ASSERT_(LIO_READ == GPUFS_LIO_READ && LIO_WRITE == GPUFS_LIO_WRITE && LIO_NOP == GPUFS_LIO_NOP, "LIO_");
GPUFS_STATIC_ASSERT_(LIO_WAIT == GPUFS_LIO_WAIT && LIO_NOWAIT == GPUFS_LIO_NOWAIT, "LIO_WAIT");
GPUFS_STATIC_ASSERT_(O_SYNC == GPUFS_O_SYNC && O_DSYNC == GPUFS_O_DSYNC && SIGEV_NONE == GPUFS_SIGEV_NONE, "O_SYNC");

struct shared {
    int file;  /* for all threads */
    int empty; /* a pipe in which nothing comes */
    int ends[2]; /* a pair of sockets */
};

static gpufs_aiocb block_of(int file, void *memory, size_t bytes, int64_t offset) {
    gpufs_aiocb block;
    memset(&block, 0, sizeof block);
    block.aio_fildes = file, block.aio_buf = memory, block.aio_nbytes = bytes, block.aio_offset = offset;
    return block;
}

static void wait_for(gpufs_session *fs, const gpufs_aiocb *block) {
    const gpufs_aiocb *const blocks[2] = {NULL, block};
    CHECK(gpufs_aio_suspend(fs, blocks, 2, NULL) == 0);
    CHECK(gpufs_aio_error(fs, block) != EINPROGRESS);
}

/* Every thread writes, syncs and reads records of its own, two reads in flight; then all of them as lists. */
static void records(gpufs_session *fs, void *argument) {
    const struct shared *shared = argument;
    const int64_t at = (int64_t)gpufs_thread() * 200;
    char text[100], first[50], second[50];
    int rounds = 0;
    memset(text, 'a' + (int)(gpufs_thread() % 26), sizeof text);
    gpufs_aiocb write = block_of(shared->file, text, sizeof text, at);
    /* As others leave room. */
    while (gpufs_aio_write(fs, &write) != 0) {
        CHECK(errno == EAGAIN);
        gpufs_nap(1000);
    }
    /* The memory is this thread's again. */
    memset(text, 'z', sizeof text);
    while (gpufs_aio_error(fs, &write) == EINPROGRESS) {
        CHECK(rounds++ < 100000000);
    }
    CHECK(gpufs_aio_error(fs, &write) == 0 && gpufs_aio_return(fs, &write) == 100);
    while (gpufs_aio_fsync(fs, gpufs_thread() % 2 == 0 ? O_SYNC : O_DSYNC, &write) != 0) {
        CHECK(errno == EAGAIN);
        gpufs_nap(1000);
    }
    wait_for(fs, &write);
    CHECK(gpufs_aio_return(fs, &write) == 0);
    gpufs_aiocb one = block_of(shared->file, first, 50, at), other = block_of(shared->file, second, 50, at + 50);
    gpufs_aiocb *both[3] = {&one, NULL, &other};
    one.aio_lio_opcode = other.aio_lio_opcode = GPUFS_LIO_READ;
    /* A list that waits goes on without room, too, as long as others end. */
    while (gpufs_lio_listio(fs, GPUFS_LIO_WAIT, both, 3, NULL) != 0) {
        CHECK(errno == EAGAIN);
        gpufs_nap(1000);
    }
    CHECK(gpufs_aio_return(fs, &one) == 50 && gpufs_aio_return(fs, &other) == 50);
    CHECK(first[0] == 'a' + (int)(gpufs_thread() % 26) && memcmp(first, second, 50) == 0);
}

/* One thread: a read that is in flight until it is cancelled, and what each call says of it. */
static void endless(gpufs_session *fs, void *argument) {
    const struct shared *shared = argument;
    char text[8] = "before";
    gpufs_timespec soon = {0, 1000000}, wrong = {0, 1000000000};
    gpufs_aiocb read = block_of(shared->empty, text, sizeof text, 77), copy, none = block_of(0, NULL, 0, 0);
    const gpufs_aiocb *const blocks[1] = {&read};
    CHECK(gpufs_aio_read(fs, &read) == 0);
    CHECK(gpufs_aio_error(fs, &read) == EINPROGRESS);
    CHECK(gpufs_aio_error(fs, &read) == EINPROGRESS);
    CHECK_FAILS(gpufs_aio_return(fs, &read), -1, EINPROGRESS);
    CHECK_FAILS(gpufs_aio_read(fs, &read), -1, EBUSY);
    CHECK_FAILS(gpufs_aio_fsync(fs, O_SYNC, &read), -1, EBUSY);
    CHECK_FAILS(gpufs_aio_suspend(fs, blocks, 1, &soon), -1, EAGAIN);
    CHECK_FAILS(gpufs_aio_suspend(fs, blocks, 1, &wrong), -1, EINVAL);
    memcpy(&copy, &read, sizeof copy);
    CHECK_FAILS(gpufs_aio_error(fs, &copy), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_cancel(fs, shared->empty, &copy), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_cancel(fs, shared->file, &read), -1, EINVAL);
    CHECK(gpufs_aio_cancel(fs, shared->empty, &read) == GPUFS_AIO_CANCELED);
    CHECK(gpufs_aio_cancel(fs, shared->empty, &read) == GPUFS_AIO_ALLDONE);
    CHECK(gpufs_aio_error(fs, &read) == ECANCELED && gpufs_aio_error(fs, &read) == ECANCELED);
    CHECK_FAILS(gpufs_aio_return(fs, &read), -1, ECANCELED);
    CHECK_FAILS(gpufs_aio_return(fs, &read), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_error(fs, &read), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_error(fs, &none), -1, EINVAL);
    CHECK(strcmp(text, "before") == 0);
    /* Left: the session's synchronization ends it. */
    CHECK(gpufs_aio_read(fs, &read) == 0);
}

static void wrong(gpufs_session *fs, void *argument) {
    const struct shared *shared = argument;
    char text[8] = "";
    gpufs_sigevent signalled = {0, 10, 0, {0}}, untold = {0, 0, GPUFS_SIGEV_NONE, {0}};
    gpufs_aiocb block = block_of(shared->file, text, sizeof text, 0), bad = block_of(50, text, sizeof text, 0);
    gpufs_aiocb nothing = block_of(shared->file, text, 1, 0), odd = nothing;
    gpufs_aiocb *const list[4] = {&block, &bad, &nothing, &odd}, *const empty[1] = {NULL};
    CHECK_FAILS(gpufs_aio_read(NULL, &block), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_read(fs, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_aio_read(fs, &bad), -1, EBADF);
    CHECK_FAILS(gpufs_aio_write(fs, &bad), -1, EBADF);
    CHECK_FAILS(gpufs_aio_fsync(fs, O_SYNC, &bad), -1, EBADF);
    CHECK_FAILS(gpufs_aio_write(fs, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_aio_fsync(fs, O_RDWR, &block), -1, EINVAL);
    block.aio_buf = NULL;
    CHECK_FAILS(gpufs_aio_read(fs, &block), -1, EFAULT);
    CHECK_FAILS(gpufs_aio_write(fs, &block), -1, EFAULT);
    block.aio_buf = text, block.aio_offset = -1;
    CHECK_FAILS(gpufs_aio_read(fs, &block), -1, EINVAL);
    block.aio_offset = 0, block.aio_reqprio = -1;
    CHECK_FAILS(gpufs_aio_read(fs, &block), -1, EINVAL);
    block.aio_reqprio = 0, block.aio_sigevent = signalled;
    CHECK_FAILS(gpufs_aio_read(fs, &block), -1, EINVAL);
    block.aio_sigevent = untold;
    CHECK_FAILS(gpufs_aio_error(fs, &block), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_return(fs, &block), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_cancel(fs, shared->file, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_cancel(fs, shared->file, &block), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_suspend(fs, NULL, 1, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_aio_suspend(fs, NULL, 0, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_suspend(fs, (const gpufs_aiocb *const *)list, 1, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_suspend(fs, (const gpufs_aiocb *const *)empty, 1, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_lio_listio(fs, 7, list, 1, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_lio_listio(fs, GPUFS_LIO_WAIT, list, -1, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_lio_listio(fs, GPUFS_LIO_WAIT, NULL, 1, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_lio_listio(fs, GPUFS_LIO_NOWAIT, list, 1, &signalled), -1, EINVAL);
    CHECK(gpufs_lio_listio(fs, GPUFS_LIO_NOWAIT, empty, 1, &untold) == 0);
    /* One that reads, one of a file that is not there, one of nothing, and an opcode that is none. */
    nothing.aio_lio_opcode = GPUFS_LIO_NOP, odd.aio_lio_opcode = 9;
    CHECK_FAILS(gpufs_lio_listio(fs, GPUFS_LIO_WAIT, list, 4, &untold), -1, EIO);
    CHECK(gpufs_aio_error(fs, &block) == 0 && gpufs_aio_return(fs, &block) == 8);
    CHECK(gpufs_aio_error(fs, &bad) == EBADF && gpufs_aio_error(fs, &odd) == EINVAL);
    CHECK_FAILS(gpufs_aio_return(fs, &bad), -1, EBADF);
    CHECK_FAILS(gpufs_aio_error(fs, &nothing), -1, EINVAL);
}

/* Waits for the last block of a chain, then for the others, which are complete by then or soon. */
static void end_of(gpufs_session *fs, gpufs_aiocb *const *chain, int count) {
    while (count-- > 0) {
        wait_for(fs, chain[count]);
    }
}

/* Every thread writes a record, has it copied behind those of the others, and syncs; the copy comes back with the write. */
static void chains(gpufs_session *fs, void *argument) {
    const struct shared *shared = argument;
    const int64_t at = (int64_t)gpufs_thread() * 20, copied = 80 * 20 + at;
    char text[20], memory[20];
    memset(text, 'a' + (int)(gpufs_thread() % 26), sizeof text), memset(memory, '.', sizeof memory);
    gpufs_aiocb write = block_of(shared->file, text, sizeof text, at), read = block_of(shared->file, memory, 20, at);
    gpufs_aiocb copy = block_of(shared->file, memory, 20, copied), sync = block_of(shared->file, NULL, 0, 0);
    gpufs_aiocb *const all[4] = {&write, &read, &copy, &sync};
    write.aio_lio_opcode = copy.aio_lio_opcode = GPUFS_LIO_WRITE;
    read.aio_lio_opcode = GPUFS_LIO_READ, sync.aio_lio_opcode = GPUFS_LIO_DSYNC;
    while (gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, all, 4) != 0) {
        CHECK(errno == EAGAIN);
        gpufs_nap(1000);
    }
    memset(text, 'z', sizeof text);
    end_of(fs, all, 4);
    CHECK(gpufs_aio_return(fs, &sync) == 0 && gpufs_aio_return(fs, &copy) == 20);
    CHECK(gpufs_aio_return(fs, &read) == 20 && gpufs_aio_return(fs, &write) == 20);
    CHECK(memory[0] == 'a' + (int)(gpufs_thread() % 26) && memory[19] == memory[0]);
    CHECK(gpufs_pread(fs, shared->file, text, sizeof text, copied) == 20 && memcmp(text, memory, 20) == 0);
}

/* One thread: chains that end early, and each wrong use. */
static void wrong_chains(gpufs_session *fs, void *argument) {
    const struct shared *shared = argument;
    char text[8] = "", other[8] = "";
    gpufs_aiocb read = block_of(shared->file, text, 8, 1 << 20), write = block_of(shared->file, text, 8, 0);
    gpufs_aiocb sync = block_of(shared->file, NULL, 0, 0), bad = block_of(50, text, 8, 0), pipe = block_of(shared->empty, text, 8, 0);
    gpufs_aiocb *chain[5] = {&read, &write, &sync, &sync, &bad};
    read.aio_lio_opcode = pipe.aio_lio_opcode = GPUFS_LIO_READ, write.aio_lio_opcode = bad.aio_lio_opcode = GPUFS_LIO_WRITE;
    sync.aio_lio_opcode = GPUFS_LIO_SYNC;
    /* Behind the file's end nothing is read, so nothing is written. */
    CHECK(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, 3) == 0);
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, 3), -1, EBUSY);
    end_of(fs, chain, 3);
    CHECK(gpufs_aio_return(fs, &read) == 0 && gpufs_aio_error(fs, &write) == ECANCELED);
    CHECK_FAILS(gpufs_aio_return(fs, &write), -1, ECANCELED);
    CHECK_FAILS(gpufs_aio_return(fs, &sync), -1, ECANCELED);
    write.aio_buf = other;
    CHECK(gpufs_aio_chain(fs, GPUFS_CHAIN_GOES_ON, chain, 3) == 0);
    end_of(fs, chain, 3);
    CHECK(gpufs_aio_return(fs, &read) == 0 && gpufs_aio_return(fs, &write) == 8 && gpufs_aio_return(fs, &sync) == 0);
    CHECK_FAILS(gpufs_aio_chain(NULL, GPUFS_CHAIN_STOPS, chain, 3), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, NULL, 3), -1, EFAULT);
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, -1), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, GPUFS_CHAIN_MAX + 1), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_chain(fs, 7, chain, 3), -1, EINVAL);
    /* One twice; none; a file that is not there; a pipe; what is read, in part and in whole without a stop. */
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, 4), -1, EINVAL);
    chain[0] = NULL;
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, 2), -1, EFAULT);
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain + 3, 2), -1, EBADF);
    chain[0] = &pipe;
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, 2), -1, ESPIPE);
    chain[0] = &read, write.aio_buf = text + 1, write.aio_nbytes = 3;
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, 2), -1, EINVAL);
    write.aio_buf = text, write.aio_nbytes = 8;
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_GOES_ON, chain, 2), -1, EINVAL);
    write.aio_lio_opcode = GPUFS_LIO_NOP;
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, 2), -1, EINVAL);
    write.aio_lio_opcode = GPUFS_LIO_WRITE, write.aio_buf = NULL;
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, 2), -1, EFAULT);
    write.aio_buf = other, write.aio_nbytes = GPUFS_AIO_BYTES + 1;
    CHECK_FAILS(gpufs_aio_chain(fs, GPUFS_CHAIN_STOPS, chain, 2), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_error(fs, &write), -1, EINVAL);
}

/* One thread: what is sent comes to the block's own memory; a poll says that it is there; each wrong use. */
static void sockets(gpufs_session *fs, void *argument) {
    const struct shared *shared = argument;
    static char sent[] = "where it lies", got[32];
    gpufs_aiocb poll = block_of(shared->ends[0], NULL, 0, 0), recv = block_of(shared->ends[0], got, sizeof got, 0);
    gpufs_aiocb send = block_of(shared->ends[1], sent, sizeof sent, 0), file = block_of(shared->file, got, 1, 0);
    CHECK(gpufs_aio_poll(fs, &poll, POLLIN) == 0 && gpufs_aio_recv(fs, &recv, MSG_PEEK) == 0);
    CHECK(gpufs_aio_error(fs, &poll) == EINPROGRESS && gpufs_aio_error(fs, &recv) == EINPROGRESS);
    CHECK_FAILS(gpufs_aio_recv(fs, &recv, 0), -1, EBUSY);
    CHECK(gpufs_aio_send(fs, &send, 0) == 0);
    wait_for(fs, &send), wait_for(fs, &poll), wait_for(fs, &recv);
    CHECK(gpufs_aio_return(fs, &send) == sizeof sent && gpufs_aio_return(fs, &poll) == POLLIN);
    CHECK(gpufs_aio_return(fs, &recv) == sizeof sent && memcmp(got, sent, sizeof sent) == 0);
    CHECK(gpufs_aio_recv(fs, &recv, 0) == 0);
    wait_for(fs, &recv);
    CHECK(gpufs_aio_return(fs, &recv) == sizeof sent);
    CHECK(gpufs_aio_recv(fs, &recv, MSG_DONTWAIT) == 0);
    wait_for(fs, &recv);
    CHECK_FAILS(gpufs_aio_return(fs, &recv), -1, EAGAIN);
    CHECK(gpufs_aio_recv(fs, &recv, 0) == 0 && gpufs_aio_cancel(fs, shared->ends[0], &recv) == GPUFS_AIO_CANCELED);
    CHECK_FAILS(gpufs_aio_return(fs, &recv), -1, ECANCELED);
    CHECK_FAILS(gpufs_aio_recv(NULL, &recv, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_aio_send(fs, NULL, 0), -1, EFAULT);
    CHECK_FAILS(gpufs_aio_poll(fs, NULL, POLLIN), -1, EFAULT);
    CHECK_FAILS(gpufs_aio_recv(fs, &file, 0), -1, ENOTSOCK);
    CHECK_FAILS(gpufs_aio_send(fs, &file, 0), -1, ENOTSOCK);
    file.aio_fildes = 50;
    CHECK_FAILS(gpufs_aio_recv(fs, &file, 0), -1, EBADF);
    CHECK_FAILS(gpufs_aio_poll(fs, &file, POLLIN), -1, EBADF);
    CHECK_FAILS(gpufs_aio_poll(fs, &poll, 1 << 16), -1, EINVAL);
    recv.aio_buf = NULL;
    CHECK_FAILS(gpufs_aio_recv(fs, &recv, 0), -1, EFAULT);
}

int main(void) {
    int ends[2], pair[2];
    struct shared shared;
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, NULL);
    CHECK(host != NULL && pipe(ends) == 0);
    int file = open("records", O_RDWR | O_CREAT | O_TRUNC, 0600);
    shared.file = gpufs_host_register_file(host, file);
    shared.empty = gpufs_host_register_file(host, ends[0]);
    CHECK(shared.file >= 0 && shared.empty >= 0);
    CHECK(gpufs_host_launch(host, 2, 40, records, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    shared.ends[0] = gpufs_host_register_file(host, pair[0]), shared.ends[1] = gpufs_host_register_file(host, pair[1]);
    CHECK(gpufs_host_launch(host, 1, 1, sockets, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 2, 40, chains, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, wrong_chains, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, endless, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, wrong, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    return 0;
}
