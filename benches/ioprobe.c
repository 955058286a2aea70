/*
 * ioprobe: one measurement of file I/O, as plain system calls, one rate on standard output.
 *
 *   ioprobe write-new   FILE MIB BLOCK     remove FILE, write it from start to end
 *   ioprobe rewrite     FILE MIB BLOCK     write over what is there, for at least SPAN_S
 *   ioprobe read        FILE MIB BLOCK     read from start to end, for at least SPAN_S, check each block's mark
 *   ioprobe random-write|random-read FILE MIB BLOCK     blocks in pseudo-random order, for at least SPAN_S
 *   ioprobe shared-new  FILE MIB BLOCK     remove FILE, two processes write one half each
 *   ioprobe shared-rewrite FILE MIB BLOCK  two processes write over one half each, for at least SPAN_S
 *   ioprobe shared-read FILE MIB BLOCK     two processes read one half each, for at least SPAN_S
 *   ioprobe four-rewrite|four-read FILE MIB BLOCK  the same with four processes and quarters
 *   ioprobe create      DIRECTORY COUNT    make that many empty files
 *   ioprobe stat        DIRECTORY COUNT    look at all of them, for at least SPAN_S
 *   ioprobe list        DIRECTORY COUNT    list it, for at least SPAN_S; there have to be exactly that many names
 *   ioprobe unlink      DIRECTORY COUNT    remove them
 *   ioprobe message     COUNT              send a message to another process and have it back, as root
 *
 * MIB is the size of the file, BLOCK the bytes of one call. Prints MiB/s for the sequential tests, calls/s for random
 * ones, files/s for create, stat, list and unlink, messages/s for message. Opening and closing are not timed; nothing is synced: the page
 * cache is what is measured, the caller syncs between measurements. Any failed or short call ends the program with status 1 and a message.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SPAN_S 0.4
#define CREW_MAX 4 /* processes at one file */
#define MIB (1024.0 * 1024.0)
#define MESSAGE_BYTES 128 /* about what a request for a name and its answer have */
#define CLOCK_EVERY 32 /* random calls between two looks at the clock */

struct job {
	const char *path;
	uint64_t size;	/* bytes of the file */
	uint64_t block; /* bytes of one call */
	char *buffer;
};

static void fail(const char *what, const char *path)
{
	fprintf(stderr, "ioprobe: %s %s: %s\n", what, path, strerror(errno));
	exit(1);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int open_file(const struct job *job, int flags)
{
	int fd = open(job->path, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		fail("open", job->path);
	return fd;
}

static void close_file(const struct job *job, int fd)
{
	if (close(fd) != 0)
		fail("close", job->path);
}

/* The first eight bytes of a block are its own offset, so that a read can tell a misplaced block. */
static void write_block(const struct job *job, int fd, uint64_t offset)
{
	ssize_t n;

	memcpy(job->buffer, &offset, sizeof offset);
	n = pwrite(fd, job->buffer, job->block, (off_t)offset);
	if (n != (ssize_t)job->block) {
		errno = n < 0 ? errno : ENOSPC;
		fail("write", job->path);
	}
}

static void read_block(const struct job *job, int fd, uint64_t offset)
{
	ssize_t n = pread(fd, job->buffer, job->block, (off_t)offset);

	if (n != (ssize_t)job->block) {
		errno = n < 0 ? errno : ENODATA;
		fail("read", job->path);
	}
}

static void check_mark(const struct job *job, uint64_t offset)
{
	uint64_t mark;

	memcpy(&mark, job->buffer, sizeof mark);
	if (mark != offset) {
		fprintf(stderr, "ioprobe: %s: the block at %llu carries the mark %llu: wrong data\n", job->path,
			(unsigned long long)offset, (unsigned long long)mark);
		exit(1);
	}
}

static void write_range(const struct job *job, int fd, uint64_t from, uint64_t to)
{
	for (uint64_t offset = from; offset < to; offset += job->block)
		write_block(job, fd, offset);
}

static double write_new(const struct job *job)
{
	double start, seconds;
	int fd;

	if (unlink(job->path) != 0 && errno != ENOENT)
		fail("unlink", job->path);
	fd = open_file(job, O_WRONLY | O_CREAT | O_EXCL);
	start = now_s();
	write_range(job, fd, 0, job->size);
	seconds = now_s() - start;
	close_file(job, fd);
	return (double)job->size / MIB / seconds;
}

static double rewrite(const struct job *job)
{
	int fd = open_file(job, O_WRONLY), passes = 0;
	double start = now_s(), seconds;

	do {
		write_range(job, fd, 0, job->size);
		passes++;
		seconds = now_s() - start;
	} while (seconds < SPAN_S);
	close_file(job, fd);
	return passes * ((double)job->size / MIB) / seconds;
}

static double read_all(const struct job *job)
{
	int fd = open_file(job, O_RDONLY), passes = 0;
	double start = now_s(), seconds;

	do {
		for (uint64_t offset = 0; offset < job->size; offset += job->block) {
			read_block(job, fd, offset);
			check_mark(job, offset);
		}
		passes++;
		seconds = now_s() - start;
	} while (seconds < SPAN_S);
	close_file(job, fd);
	return passes * ((double)job->size / MIB) / seconds;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static double random_calls(const struct job *job, int writing)
{
	int fd = open_file(job, writing ? O_WRONLY : O_RDONLY);
	uint64_t state = 0x9e3779b97f4a7c15u, blocks = job->size / job->block, calls = 0;
	double start = now_s(), seconds;

	do {
		for (int i = 0; i < CLOCK_EVERY; i++, calls++) {
			uint64_t offset = next_random(&state) % blocks * job->block;

			if (writing)
				write_block(job, fd, offset);
			else
				read_block(job, fd, offset);
		}
		seconds = now_s() - start;
	} while (seconds < SPAN_S);
	close_file(job, fd);
	return (double)calls / seconds;
}

/* What the processes at one file tell each other: they begin together, and go on until they have seen the time. */
struct meeting {
	volatile int ready;
	volatile int go;
	volatile uint64_t bytes[CREW_MAX];
	volatile double end[CREW_MAX];
};

/* Who works at a file and how: each process has an equal part of it. span_s 0 means one pass. */
struct crew {
	int size;
	int reading;
	double span_s;
};

static void read_range(const struct job *job, int fd, uint64_t from, uint64_t to)
{
	for (uint64_t offset = from; offset < to; offset += job->block) {
		read_block(job, fd, offset);
		check_mark(job, offset);
	}
}

static void crew_member(const struct job *job, struct meeting *m, const struct crew *crew, int me)
{
	uint64_t part = job->size / (uint64_t)crew->size, from = (uint64_t)me * part, done = 0;
	int fd = open_file(job, crew->reading ? O_RDONLY : O_WRONLY);
	double start;

	__atomic_fetch_add(&m->ready, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&m->go, __ATOMIC_SEQ_CST))
		usleep(100);
	start = now_s();
	do {
		if (crew->reading)
			read_range(job, fd, from, from + part);
		else
			write_range(job, fd, from, from + part);
		done += part;
	} while (now_s() - start < crew->span_s);
	m->end[me] = now_s();
	m->bytes[me] = done;
	close_file(job, fd);
	_exit(0);
}

/* The sum of what all of them moved over the time of the slowest. */
static double together(const struct job *job, struct crew crew)
{
	struct meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double start, end = 0;
	uint64_t bytes = 0;
	int status;

	if (m == MAP_FAILED)
		fail("mmap", "shared memory");
	for (int me = 0; me < crew.size; me++) {
		pid_t child = fork();

		if (child < 0)
			fail("fork", "a process at the file");
		if (child == 0)
			crew_member(job, m, &crew, me);
	}
	while (__atomic_load_n(&m->ready, __ATOMIC_SEQ_CST) < crew.size) {
		if (waitpid(-1, &status, WNOHANG) > 0)
			exit(1);
		usleep(100);
	}
	start = now_s();
	__atomic_store_n(&m->go, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < crew.size; i++)
		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
			exit(1);
	for (int i = 0; i < crew.size; i++) {
		end = m->end[i] > end ? m->end[i] : end;
		bytes += m->bytes[i];
	}
	return (double)bytes / MIB / (end - start);
}

static double shared_new(const struct job *job)
{
	if (unlink(job->path) != 0 && errno != ENOENT)
		fail("unlink", job->path);
	close_file(job, open_file(job, O_WRONLY | O_CREAT | O_EXCL));
	return together(job, (struct crew){ .size = 2 });
}

static double stat_names(const char *directory, long count)
{
	char path[4096];
	struct stat found;
	double start = now_s(), seconds;
	long looks = 0;

	do {
		for (long i = 0; i < count; i++) {
			snprintf(path, sizeof path, "%s/f%07ld", directory, i);
			if (stat(path, &found) != 0)
				fail("stat", path);
		}
		looks += count;
		seconds = now_s() - start;
	} while (seconds < SPAN_S);
	return (double)looks / seconds;
}

static long names_in(const char *directory)
{
	DIR *open = opendir(directory);
	long found = 0;

	if (open == NULL)
		fail("open", directory);
	errno = 0;
	while (readdir(open) != NULL)
		found++;
	if (errno != 0 || closedir(open) != 0)
		fail("list", directory);
	return found - 2; /* . and .. */
}

static double list_names(const char *directory, long count)
{
	double start = now_s(), seconds;
	long listed = 0;

	do {
		long found = names_in(directory);

		if (found != count) {
			fprintf(stderr, "ioprobe: %s has %ld names and not %ld\n", directory, found, count);
			exit(1);
		}
		listed += found;
		seconds = now_s() - start;
	} while (seconds < SPAN_S);
	return (double)listed / seconds;
}

static double names(const char *directory, long count, int making)
{
	char path[4096];
	double start = now_s();

	for (long i = 0; i < count; i++) {
		snprintf(path, sizeof path, "%s/f%07ld", directory, i);
		if (making) {
			int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

			if (fd < 0 || close(fd) != 0)
				fail("create", path);
		} else if (unlink(path) != 0) {
			fail("unlink", path);
		}
	}
	return (double)count / (now_s() - start);
}

static void send_message(int fd)
{
	static const char message[MESSAGE_BYTES];

	if (send(fd, message, sizeof message, MSG_NOSIGNAL) != sizeof message)
		fail("send", "a message");
}

/* 0 when the other side has closed. */
static int receive_message(int fd)
{
	char message[MESSAGE_BYTES];
	ssize_t n = recv(fd, message, sizeof message, MSG_WAITALL);

	if (n != 0 && n != sizeof message)
		fail("receive", "a message");
	return n != 0;
}

static int keep_awake(void)
{
	static const char *path = "/dev/cpu_dma_latency";
	int32_t latency_us = 0;
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, &latency_us, sizeof latency_us) != sizeof latency_us)
		fail("write", path);
	return fd;
}

/* The least that asking another process costs: over a Unix socket, with processors that stay awake, as mounts and servers keep them
 * while they answer many calls. */
static double messages(long count)
{
	int awake = keep_awake(), ends[2], status;
	double start, seconds;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		fail("make", "a socket");
	child = fork();
	if (child < 0)
		fail("fork", "a process that answers");
	if (child == 0) {
		close(ends[0]);
		while (receive_message(ends[1]))
			send_message(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	start = now_s();
	for (long i = 0; i < count; i++) {
		send_message(ends[0]);
		if (!receive_message(ends[0]))
			fail("receive", "an answer");
	}
	seconds = now_s() - start;
	close(ends[0]);
	close(awake);
	if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail("answer", "messages");
	return (double)count / seconds;
}

static int usage(void)
{
	fprintf(stderr, "usage: ioprobe write-new|rewrite|read|random-write|random-read|shared-new|shared-rewrite|shared-read|"
			"four-rewrite|four-read FILE MIB BLOCK\n       ioprobe create|stat|list|unlink DIRECTORY COUNT\n"
			"       ioprobe message COUNT\n");
	return 2;
}

/* A whole number above zero, or 0 for anything else. */
static uint64_t number(const char *text)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	return *text >= '0' && *text <= '9' && *end == '\0' ? value : 0;
}

static int run_file_test(const char *test, struct job *job)
{
	double rate;

	if (strcmp(test, "write-new") == 0)
		rate = write_new(job);
	else if (strcmp(test, "rewrite") == 0)
		rate = rewrite(job);
	else if (strcmp(test, "read") == 0)
		rate = read_all(job);
	else if (strcmp(test, "random-write") == 0)
		rate = random_calls(job, 1);
	else if (strcmp(test, "random-read") == 0)
		rate = random_calls(job, 0);
	else if (strcmp(test, "shared-new") == 0)
		rate = shared_new(job);
	else if (strcmp(test, "shared-rewrite") == 0)
		rate = together(job, (struct crew){ .size = 2, .span_s = SPAN_S });
	else if (strcmp(test, "shared-read") == 0)
		rate = together(job, (struct crew){ .size = 2, .reading = 1, .span_s = SPAN_S });
	else if (strcmp(test, "four-rewrite") == 0)
		rate = together(job, (struct crew){ .size = 4, .span_s = SPAN_S });
	else if (strcmp(test, "four-read") == 0)
		rate = together(job, (struct crew){ .size = 4, .reading = 1, .span_s = SPAN_S });
	else
		return usage();
	printf("%.1f\n", rate);
	return 0;
}

static int run_names_test(const char *test, const char *directory, long count)
{
	double rate;

	if (strcmp(test, "create") == 0)
		rate = names(directory, count, 1);
	else if (strcmp(test, "stat") == 0)
		rate = stat_names(directory, count);
	else if (strcmp(test, "list") == 0)
		rate = list_names(directory, count);
	else if (strcmp(test, "unlink") == 0)
		rate = names(directory, count, 0);
	else
		return usage();
	printf("%.1f\n", rate);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "message") == 0 && number(argv[2]) > 0) {
		printf("%.1f\n", messages((long)number(argv[2])));
		return 0;
	}
	if (argc == 4 && number(argv[3]) > 0)
		return run_names_test(argv[1], argv[2], (long)number(argv[3]));
	if (argc != 5)
		return usage();

	struct job job = { argv[2], number(argv[3]) * (uint64_t)MIB, number(argv[4]), NULL };

	if (job.size == 0 || job.block < 8 || job.size / CREW_MAX % job.block != 0)
		return usage();
	job.buffer = aligned_alloc(4096, (job.block + 4095) / 4096 * 4096);
	if (job.buffer == NULL)
		fail("allocate", "a buffer");
	for (uint64_t i = 0, state = 1; i + 8 <= job.block; i += 8) {
		next_random(&state);
		memcpy(job.buffer + i, &state, 8);
	}
	return run_file_test(argv[1], &job);
}
