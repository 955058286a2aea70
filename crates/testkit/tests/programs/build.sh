# A project of several C files, built by make, run, changed and built again.
mkdir -p source
for number in $(seq 12); do
    printf '#include "all.h"\nint f%s(int x) { return x + %s; }\n' "$number" "$number" > source/f$number.c
    echo "int f$number(int x);"
done > source/all.h
{
    echo '#include "all.h"'
    echo '#include <stdio.h>'
    echo 'int main(void) { int x = 0;'
    for number in $(seq 12); do echo "x = f$number(x);"; done
    echo 'printf("%d\n", x); return 0; }'
} > source/main.c
cat > Makefile <<'MAKE'
objects := $(patsubst source/%.c,build/%.o,$(wildcard source/*.c))
program: $(objects) build/libf.a
	gcc -o $@ $(objects)
build/libf.a: $(filter-out build/main.o,$(objects))
	ar rcs $@ $^
build/%.o: source/%.c source/all.h | build
	gcc -g -O1 -MMD -c -o $@ $<
build:
	mkdir -p $@
MAKE
make -s -j2
test "$(./program)" = 78
make -q || { echo "make would build again"; exit 1; }
sed -i 's/x + 12/x + 100/' source/f12.c
make -s -j2
test "$(./program)" = 166
gcc -shared -fPIC -o libshared.so source/f1.c
gcc -o with-library -x c - -x none ./libshared.so <<'C'
int f1(int);
int main(void) { return f1(41); }
C
status=0
./with-library || status=$?
test $status = 42
strip program && test "$(./program)" = 166
