/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/io.h"
#include "base/sbuf.h"

#define MAX_FILE_BYTES (1024 * 1024)
#define BIG_BYTES 300000

/* A fresh directory that each test works in; the name is relative then. */
struct scene {
    char dir[64];
    int old_dir;
};

static int
setup(void **state)
{
    struct scene *s = xcalloc(1, sizeof(*s));

    snprintf(s->dir, sizeof(s->dir), "/tmp/test_io-XXXXXX");
    s->old_dir = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    *state = s;
    return s->old_dir >= 0 && mkdtemp(s->dir) && chdir(s->dir) == 0 ? 0 : -1;
}

static int
teardown(void **state)
{
    struct scene *s = *state;
    int rc = io_remove_tree(s->dir, NULL);

    if (fchdir(s->old_dir) < 0) {
        rc = -1;
    }
    close(s->old_dir);
    free(s);
    return rc;
}

static void
put_file(const char *path, const char *text)
{
    AUTO_CLOSE int fd =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text), NULL), 0);
}

static void
assert_file(const char *path, const char *expect)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, MAX_FILE_BYTES);
    assert_int_equal(io_read_file(path, &sb, NULL), 0);
    assert_string_equal(sb.data, expect);
}

static bool
exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static char *
make_big(void)
{
    char *data = xmalloc(BIG_BYTES + 1);

    for (size_t i = 0; i < BIG_BYTES; i++) {
        data[i] = (char)('a' + i % 23);
    }
    data[BIG_BYTES] = '\0';
    return data;
}

/* ---- reading and writing ---- */

static void
test_read_file_whole(void **state)
{
    AUTO_FREE char *big = make_big();

    (void)state;
    put_file("f", big);
    assert_file("f", big);
    put_file("empty", "");
    assert_file("empty", "");
}

static void
test_read_file_limit(void **state)
{
    static const struct {
        size_t max;
        int expect_rc;
    } cases[] = {{4, -1}, {5, 0}, {6, 0}};

    (void)state;
    put_file("f", "12345");
    for (size_t i = 0; i < LEN(cases); i++) {
        AUTO_SBUF struct sbuf sb = {0};
        struct error err = {0};

        sbuf_init(&sb, cases[i].max);
        assert_int_equal(io_read_file("f", &sb, &err), cases[i].expect_rc);
        assert_int_equal(err.code,
                         cases[i].expect_rc == 0 ? ERR_NONE : ERR_TOO_LARGE);
    }
}

static void
test_read_file_refuses_others(void **state)
{
    static const char *const names[] = {"missing", "fifo", "dir", "/dev/null"};

    (void)state;
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(mkdir("dir", 0700), 0);
    for (size_t i = 0; i < LEN(names); i++) {
        AUTO_SBUF struct sbuf sb = {0};
        struct error err = {0};

        sbuf_init(&sb, 100);
        assert_int_equal(io_read_file(names[i], &sb, &err), -1);
        assert_int_equal(err.code, ERR_IO);
        assert_non_null(strstr(err.msg, names[i]));
    }
}

/* More than a pipe holds, through descriptors that do not block on both sides:
   each has to wait for the other. */
static void
test_write_and_read_through_nonblocking_pipe(void **state)
{
    AUTO_FREE char *big = make_big();
    AUTO_SBUF struct sbuf sb = {0};
    int fds[2];
    int status;
    pid_t pid;

    (void)state;
    sbuf_init(&sb, MAX_FILE_BYTES);
    assert_int_equal(io_pipe(fds, NULL), 0);
    assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fds[1], F_GETFD) & FD_CLOEXEC);
    assert_int_equal(io_set_nonblock(fds[0], NULL), 0);
    assert_int_equal(io_set_nonblock(fds[1], NULL), 0);
    assert_true(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        _exit(io_write_all(fds[1], big, BIG_BYTES, NULL) == 0 ? 0 : 1);
    }
    close(fds[1]);
    assert_int_equal(io_read_all(fds[0], &sb, NULL), 0);
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_string_equal(sb.data, big);
}

static void
test_errors_of_descriptors(void **state)
{
    struct error err = {0};
    AUTO_SBUF struct sbuf sb = {0};

    (void)state;
    sbuf_init(&sb, 10);
    assert_int_equal(io_write_all(987654, "x", 1, &err), -1);
    assert_int_equal(err.sys_errno, EBADF);
    assert_int_equal(io_read_all(987654, &sb, &err), -1);
    assert_int_equal(io_set_nonblock(987654, &err), -1);
}

/* ---- replacing ---- */

static int
count_entries(void)
{
    int n = 0;
    DIR *dir = opendir(".");
    const struct dirent *entry;

    assert_non_null(dir);
    for (entry = readdir(dir); entry; entry = readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n - 2; /* "." and ".." */
}

static void
test_replace_makes_and_replaces(void **state)
{
    mode_t mask = umask(077);
    struct stat st;

    (void)state;
    assert_int_equal(io_replace("f", "one", 3, 0600, NULL), 0);
    assert_file("f", "one");
    assert_int_equal(io_replace("./f", "three", 5, 0644, NULL), 0);
    umask(mask);
    assert_file("f", "three");
    assert_int_equal(stat("f", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(count_entries(), 1);
}

/* Who has the old file open keeps it: it was not written over. */
static void
test_replace_is_a_new_file(void **state)
{
    AUTO_SBUF struct sbuf sb = {0};
    int fd;

    (void)state;
    sbuf_init(&sb, 100);
    put_file("f", "old");
    fd = open("f", O_RDONLY | O_CLOEXEC);
    assert_int_equal(io_replace("f", "new", 3, 0600, NULL), 0);
    assert_int_equal(io_read_all(fd, &sb, NULL), 0);
    close(fd);
    assert_string_equal(sb.data, "old");
    assert_file("f", "new");
}

static void
test_replace_does_not_write_through_a_link(void **state)
{
    struct stat st;

    (void)state;
    put_file("target", "safe");
    assert_int_equal(symlink("target", "link"), 0);
    assert_int_equal(io_replace("link", "new", 3, 0600, NULL), 0);
    assert_file("target", "safe");
    assert_int_equal(lstat("link", &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void
test_replace_failure_leaves_nothing(void **state)
{
    struct error err = {0};
    struct rlimit old;
    struct rlimit small;

    (void)state;
    assert_int_equal(io_replace("no/dir/f", "x", 1, 0600, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(err.sys_errno, ENOENT);
    /* A directory with something in it cannot be replaced. */
    assert_int_equal(mkdir("d", 0700), 0);
    put_file("d/f", "x");
    assert_int_equal(io_replace("d", "x", 1, 0600, &err), -1);
    assert_int_equal(count_entries(), 1);

    /* The disk is full in the middle, as it were. */
    put_file("kept", "old");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = 2, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(io_replace("kept", "longer", 6, 0600, &err), -1);
    assert_int_equal(err.sys_errno, EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_file("kept", "old");
    assert_int_equal(count_entries(), 2);
}

/* ---- directories ---- */

static void
count_others(const char *dir, size_t expect)
{
    DIR *d = opendir(dir);
    size_t n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    assert_int_equal(n, expect + 2);
}

static void
test_new_file_appears_when_whole(void **state)
{
    static const char *const dirs[] = {"new", "/dev/shm"};
    struct io_new f;
    struct error err = {0};
    struct stat st;

    (void)state;
    assert_int_equal(mkdir("new", 0700), 0);
    for (size_t i = 0; i < LEN(dirs); i++) {
        char path[64];

        snprintf(path, sizeof(path), "%s/sandpiper-test-%d", dirs[i],
                 (int)getpid());
        if (access(dirs[i], W_OK) < 0) {
            continue;
        }
        assert_int_equal(io_new_open(&f, path, NULL), 0);
        assert_int_equal(io_write_all(f.fd, "text", 4, NULL), 0);
        assert_false(exists(path));
        io_new_close(&f);
        assert_false(exists(path));
        assert_int_equal(io_new_open(&f, path, NULL), 0);
        assert_int_equal(io_write_all(f.fd, "text", 4, NULL), 0);
        assert_int_equal(io_new_keep(&f, NULL), 0);
        io_new_close(&f);
        io_new_close(&f);
        assert_file(path, "text");
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(st.st_nlink, 1);
        /* Neither at once nor at the end is anything written over. */
        assert_int_equal(io_new_open(&f, path, &err), -1);
        io_new_close(&f);
        assert_non_null(strstr(err.msg, "is there already"));
        assert_int_equal(unlink(path), 0);
        assert_int_equal(io_new_open(&f, path, NULL), 0);
        assert_int_equal(symlink("nowhere", path), 0);
        assert_int_equal(io_new_keep(&f, &err), -1);
        io_new_close(&f);
        assert_int_equal(lstat(path, &st), 0);
        assert_true(S_ISLNK(st.st_mode));
        assert_int_equal(unlink(path), 0);
    }
    count_others("new", 0);
    assert_int_equal(io_new_open(&f, "nowhere/x", &err), -1);
    assert_int_equal(err.sys_errno, ENOENT);
    io_new_close(&f);
    assert_int_equal(io_new_open(&f, "new/x/", &err), -1);
    io_new_close(&f);
}

/* What mkdir says counts, not what a look at the missing path says. */
static void
test_make_dirs_keeps_the_reason(void **state)
{
    static const char path[] = "/sys/sandpiper-test";
    struct error err = {0};
    int expect;

    (void)state;
    assert_int_equal(mkdir(path, 0700), -1);
    expect = errno;
    if (expect == ENOENT || expect == ENOTDIR) {
        skip();
    }
    assert_int_equal(io_make_dirs(path, &err), -1);
    assert_int_equal(err.sys_errno, expect);
}

static void
test_make_dirs(void **state)
{
    struct scene *s = *state;
    AUTO_FREE char *absolute = xasprintf("%s/x//y/", s->dir);
    struct error err = {0};
    struct stat st;

    assert_int_equal(io_make_dirs("a/b/c", NULL), 0);
    assert_int_equal(stat("a/b/c", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat("a", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(io_make_dirs("a/b/c", NULL), 0);
    assert_int_equal(io_make_dirs("a/b/d/", NULL), 0);
    assert_int_equal(io_make_dirs(absolute, NULL), 0);
    assert_true(exists("x/y"));
    assert_int_equal(io_make_dirs("/", NULL), 0);
    assert_int_equal(io_make_dirs("", &err), -1);
    put_file("f", "");
    assert_int_equal(io_make_dirs("f/g", &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(err.sys_errno, ENOTDIR);
    assert_int_equal(io_make_dirs("f", &err), -1);
}

static void
test_remove_tree_takes_all(void **state)
{
    (void)state;
    assert_int_equal(io_make_dirs("t/a/b/c", NULL), 0);
    assert_int_equal(io_make_dirs("t/.hidden", NULL), 0);
    /* A name that is used on the way. */
    assert_int_equal(io_make_dirs("t/.removed-0/x/y", NULL), 0);
    put_file("t/.removed-1", "x");
    put_file("t/a/f", "x");
    put_file("t/a/b/c/f", "x");
    put_file("t/.hidden/f\n", "x");
    assert_int_equal(mkfifo("t/fifo", 0), 0);
    assert_int_equal(io_remove_tree("t", NULL), 0);
    assert_false(exists("t"));
    assert_int_equal(io_remove_tree("t", NULL), 0);
}

static void
test_remove_tree_follows_no_link(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(mkdir("outside", 0700), 0);
    put_file("outside/f", "safe");
    assert_int_equal(io_make_dirs("t/deep", NULL), 0);
    assert_int_equal(symlink("../outside", "t/dir-link"), 0);
    assert_int_equal(symlink("../../outside", "t/deep/dir-link"), 0);
    assert_int_equal(symlink("../outside/f", "t/file-link"), 0);
    assert_int_equal(symlink("/nonexistent", "t/broken"), 0);
    assert_int_equal(io_remove_tree("t", NULL), 0);
    assert_false(exists("t"));
    assert_file("outside/f", "safe");

    /* Nor when the name itself is one, with or without a slash behind. */
    assert_int_equal(symlink("outside", "link"), 0);
    assert_int_equal(io_remove_tree("link", &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(io_remove_tree("link/", &err), -1);
    assert_file("outside/f", "safe");
}

/* Deeper than there are descriptors, and than a path may be long. */
static void
test_remove_tree_deep(void **state)
{
    struct scene *s = *state;

    assert_int_equal(mkdir("t", 0700), 0);
    assert_int_equal(chdir("t"), 0);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(mkdir("dddd", 0700), 0);
        assert_int_equal(chdir("dddd"), 0);
    }
    put_file("f", "x");
    assert_int_equal(chdir(s->dir), 0);
    assert_int_equal(io_remove_tree("t", NULL), 0);
    assert_false(exists("t"));
}

static void
test_remove_tree_within_a_time(void **state)
{
    struct error err = {0};

    (void)state;
    for (int i = 0; i < 300; i++) {
        char name[32];

        snprintf(name, sizeof(name), "t/%d/d", i);
        assert_int_equal(io_make_dirs(name, NULL), 0);
    }
    /* Over before it begins. */
    assert_int_equal(io_remove_tree_within("t", -1, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_int_equal(err.sys_errno, ETIMEDOUT);
    assert_true(exists("t/299"));
    assert_int_equal(io_remove_tree_within("t", 600000, NULL), 0);
    assert_false(exists("t"));
    assert_int_equal(io_remove_tree_within("t", 0, NULL), 0);
}

static void
test_remove_tree_locked_directories(void **state)
{
    (void)state;
    assert_int_equal(io_make_dirs("t/a/b/c", NULL), 0);
    put_file("t/a/f", "x");
    put_file("t/a/b/f", "x");
    assert_int_equal(chmod("t/a/b/c", 0), 0);
    assert_int_equal(chmod("t/a/b", 0500), 0);
    assert_int_equal(chmod("t/a", 0), 0);
    assert_int_equal(chmod("t", 0500), 0);
    assert_int_equal(io_remove_tree("t", NULL), 0);
    assert_false(exists("t"));
}

static void
test_remove_tree_of_a_file(void **state)
{
    struct error err = {0};

    (void)state;
    put_file("f", "x");
    assert_int_equal(io_remove_tree("f", &err), -1);
    assert_int_equal(err.sys_errno, ENOTDIR);
    assert_true(exists("f"));
}

/* ---- memory files and copies ---- */

static void
test_memfd_is_sealed(void **state)
{
    AUTO_CLOSE int fd = io_memfd("test", "hello", 5, NULL);
    char text[8] = "";

    (void)state;
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(read(fd, text, sizeof(text)), 5);
    assert_string_equal(text, "hello");
    assert_int_equal(pwrite(fd, "J", 1, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 3), -1);
    assert_int_equal(ftruncate(fd, 30), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

static int
copy_file(const char *from, int flags, off_t skip, off_t max, off_t *copied,
          struct error *err)
{
    AUTO_CLOSE int in = open(from, O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int out =
        open("copy", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0600);

    assert_true(in >= 0);
    assert_true(out >= 0);
    assert_true(lseek(in, skip, SEEK_SET) == skip);
    return io_copy(in, out, max, copied, err);
}

static void
test_copy_table(void **state)
{
    /* The kernel does not copy into a descriptor that appends. */
    static const struct {
        const char *name;
        int flags;
        off_t skip;
        off_t max;
        int expect_rc;
        off_t expect_copied;
    } cases[] = {
        {"whole", 0, 0, MAX_FILE_BYTES, 0, BIG_BYTES},
        {"exact", 0, 0, BIG_BYTES, 0, BIG_BYTES},
        {"too large", 0, 0, BIG_BYTES - 1, -1, 77},
        {"from the offset", 0, 100, MAX_FILE_BYTES, 0, BIG_BYTES - 100},
        {"by hand", O_APPEND, 0, MAX_FILE_BYTES, 0, BIG_BYTES},
        {"by hand, exact", O_APPEND, 0, BIG_BYTES, 0, BIG_BYTES},
        {"by hand, too large", O_APPEND, 0, BIG_BYTES - 1, -1, 77},
        {"nothing allowed", 0, 0, 0, -1, 77},
        {"negative", 0, 0, -5, -1, 77},
        {"nothing there", 0, BIG_BYTES, 0, 0, 0},
    };
    AUTO_FREE char *big = make_big();

    (void)state;
    put_file("big", big);
    for (size_t i = 0; i < LEN(cases); i++) {
        struct error err = {0};
        off_t copied = 77;
        int rc = copy_file("big", cases[i].flags, cases[i].skip, cases[i].max,
                           &copied, &err);

        if (rc != cases[i].expect_rc || copied != cases[i].expect_copied) {
            fail_msg("%s: %d, %lld", cases[i].name, rc, (long long)copied);
        }
        if (rc == 0) {
            assert_file("copy", big + cases[i].skip);
        } else {
            assert_int_equal(err.code, ERR_TOO_LARGE);
        }
    }
}

/* Files of /proc say that they are empty, and copy_file_range believes it. */
static void
test_copy_of_a_file_without_size(void **state)
{
    off_t copied = 0;

    (void)state;
    assert_int_equal(
        copy_file("/proc/self/status", 0, 0, MAX_FILE_BYTES, &copied, NULL), 0);
    assert_true(copied > 100);
}

static void
test_copy_from_a_pipe(void **state)
{
    int fds[2];
    int out = open("copy", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    off_t copied = 0;

    (void)state;
    assert_true(out >= 0);
    assert_int_equal(io_pipe(fds, NULL), 0);
    assert_int_equal(io_write_all(fds[1], "hello", 5, NULL), 0);
    close(fds[1]);
    assert_int_equal(io_copy(fds[0], out, 100, &copied, NULL), 0);
    assert_int_equal(copied, 5);
    close(fds[0]);
    close(out);
    assert_file("copy", "hello");
}

static void
test_copy_errors(void **state)
{
    struct error err = {0};
    off_t copied = 77;
    int in;

    (void)state;
    put_file("f", "x");
    in = open("f", O_RDONLY | O_CLOEXEC);
    assert_true(in >= 0);
    assert_int_equal(io_copy(987654, in, 100, &copied, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    /* Not open for writing. */
    assert_int_equal(io_copy(in, in, 100, &copied, &err), -1);
    assert_int_equal(copied, 77);
    close(in);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_read_file_whole),
        TEST(test_read_file_limit),
        TEST(test_read_file_refuses_others),
        TEST(test_write_and_read_through_nonblocking_pipe),
        TEST(test_errors_of_descriptors),
        TEST(test_replace_makes_and_replaces),
        TEST(test_replace_is_a_new_file),
        TEST(test_replace_does_not_write_through_a_link),
        TEST(test_replace_failure_leaves_nothing),
        TEST(test_new_file_appears_when_whole),
        TEST(test_make_dirs_keeps_the_reason),
        TEST(test_make_dirs),
        TEST(test_remove_tree_takes_all),
        TEST(test_remove_tree_follows_no_link),
        TEST(test_remove_tree_deep),
        TEST(test_remove_tree_within_a_time),
        TEST(test_remove_tree_locked_directories),
        TEST(test_remove_tree_of_a_file),
        TEST(test_memfd_is_sealed),
        TEST(test_copy_table),
        TEST(test_copy_of_a_file_without_size),
        TEST(test_copy_from_a_pipe),
        TEST(test_copy_errors),
    };

    return cmocka_run_group_tests_name("io", tests, NULL, NULL);
}
