# MPI-IO: four ranks write one file in several ways; what they leave must be what they leave on a local file system.
cat > ranks.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static const char *directory;
static int rank, ranks, wrong;
static void must(int result, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (result == MPI_SUCCESS) return;
    MPI_Error_string(result, text, &length);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
static MPI_File file(const char *name) {
    char path[4096];
    MPI_File f;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    must(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f), path);
    return f;
}
static void fill(unsigned char *bytes, long length, unsigned seed) {
    unsigned x = seed * 2654435761u + 1;
    for (long i = 0; i < length; i++) { x = x * 1664525u + 1013904223u; bytes[i] = x >> 24; }
}
static void same(const void *found, const void *expected, long length, const char *what) {
    if (memcmp(found, expected, length) == 0) return;
    fprintf(stderr, "rank %d: %s differs\n", rank, what);
    wrong++;
}
enum { PART = 700001, BLOCKS = 500, INTS = 37, WHOLE = 300000, RECORD = 64 };
static unsigned char out[PART], in[PART];

static void parts(void) {
    MPI_File f = file("parts");
    MPI_Status status;
    fill(out, PART, rank);
    must(MPI_File_write_at_all(f, (MPI_Offset)rank * PART, out, PART, MPI_BYTE, &status), "write_at_all");
    MPI_File_sync(f); MPI_Barrier(MPI_COMM_WORLD); MPI_File_sync(f);
    int next = (rank + 1) % ranks;
    fill(out, PART, next);
    must(MPI_File_read_at_all(f, (MPI_Offset)next * PART, in, PART, MPI_BYTE, &status), "read_at_all");
    same(in, out, PART, "parts");
    MPI_File_close(&f);
}
/* Every rank its own columns; alone (read, change and write under a lock) or together. */
static void columns(const char *name, int together, int atomic) {
    MPI_File f = file(name);
    MPI_Status status;
    MPI_Datatype type;
    MPI_Type_vector(BLOCKS, INTS, INTS * ranks, MPI_INT, &type);
    MPI_Type_commit(&type);
    must(MPI_File_set_view(f, rank * INTS * sizeof(int), MPI_INT, type, "native", MPI_INFO_NULL), "set_view");
    must(MPI_File_set_atomicity(f, atomic), "set_atomicity");
    fill(out, BLOCKS * INTS * sizeof(int), rank + 10);
    must((together ? MPI_File_write_all : MPI_File_write)(f, out, BLOCKS * INTS, MPI_INT, &status), name);
    MPI_File_sync(f); MPI_Barrier(MPI_COMM_WORLD); MPI_File_sync(f);
    must(MPI_File_read_at_all(f, 0, in, BLOCKS * INTS, MPI_INT, &status), name);
    same(in, out, BLOCKS * INTS * sizeof(int), name);
    MPI_Type_free(&type);
    MPI_File_close(&f);
}
/* All write the same range: whoever reads finds the bytes of one of them. */
static void atomic(void) {
    MPI_File f = file("atomic");
    MPI_Status status;
    must(MPI_File_set_atomicity(f, 1), "set_atomicity");
    for (int round = 0; round < 5; round++) {
        memset(out, 'a' + rank, WHOLE);
        must(MPI_File_write_at(f, 0, out, WHOLE, MPI_BYTE, &status), "write_at");
        must(MPI_File_read_at(f, 0, in, WHOLE, MPI_BYTE, &status), "read_at");
        memset(out, in[0], WHOLE);
        same(in, out, WHOLE, "an atomic write");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    memset(out, 'Z', WHOLE);
    if (rank == 0) must(MPI_File_write_at(f, 0, out, WHOLE, MPI_BYTE, &status), "write_at");
    MPI_File_close(&f);
}
static void pointer(void) {
    MPI_Status status;
    MPI_File f = file("ordered");
    memset(out, 'A' + rank, 1000 + rank);
    for (int round = 0; round < 10; round++)
        must(MPI_File_write_ordered(f, out, 1000 + rank, MPI_BYTE, &status), "write_ordered");
    MPI_File_close(&f);
    f = file("shared");
    for (int round = 0; round < 20; round++) {
        char record[RECORD + 1];
        snprintf(record, sizeof record, "rank %2d round %3d%*c", rank, round, RECORD - 17, '\n');
        must(MPI_File_write_shared(f, record, RECORD, MPI_BYTE, &status), "write_shared");
    }
    MPI_File_close(&f);
}
int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    directory = words[1];
    parts();
    columns("together", 1, 0);
    columns("alone", 0, 0);
    columns("alone-atomic", 0, 1);
    atomic();
    pointer();
    int all;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all != 0;
}
C
mpicc.mpich -O1 -o "$LOCAL/ranks" ranks.c
mkdir "$LOCAL/expected" found
mpiexec.mpich -n 4 "$LOCAL/ranks" "$LOCAL/expected"
mpiexec.mpich -n 4 "$LOCAL/ranks" "$PWD/found"
for name in parts together alone alone-atomic atomic ordered; do cmp "$LOCAL/expected/$name" "found/$name"; done
# The records of the shared pointer come in any order, each once.
test "$(stat -c %s found/shared)" = 5120
diff <(sort "$LOCAL/expected/shared") <(sort found/shared)
