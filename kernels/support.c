/* What the kernels' shared library has besides kernels: calls from Python, memory, rest, and the level of the CPU.

   The library is not an extension module: it is linked with nothing of Python or NumPy and serves every version of both.
   hornbeam_call reads a tuple of arguments where CPython and NumPy keep them. Both promise these places: the fields of
   arrays and of dtypes up to the type number are read by macros of NumPy's C interface since 1.x, and where a tuple and
   an object begin, Python tells us (library.py), which checks the outcome before it relies on it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
#define EXPORT __declspec(dllexport)
#else
#include <sched.h>
#include <unistd.h>
#define EXPORT __attribute__((visibility("default")))
#endif

/* ---- calls from Python ---------------------------------------------------------------------------------------- */

enum { MOST_WORDS = 1024, MOST_KEY = 4096, MOST_DIMENSIONS = 4, MOST_SCALARS = 16, RECORD = 20 };

typedef int32_t (*Entry)(const int64_t *words, int64_t *results);

/* A kernel for arguments whose types make this key. */
typedef struct Known {
    struct Known *next;
    Entry entry;
    int64_t number, n_key;
    unsigned char key[];
} Known;

typedef struct {
    void *type;
    int64_t code;
} Scalar;

typedef struct {
    char *data;
    int n_dimensions;
    intptr_t *shape, *strides;
    void *base;
    char *dtype;
    int flags;
} Array;

static struct {
    intptr_t head, items; /* bytes of an object's header, and of a tuple before its items */
    void *tuple, *array, *integer, *real, *none, *yes, *no;
    int64_t (*as_integer)(void *);
    void *(*error)(void);
    void (*clear_error)(void);
    unsigned long (*type_flags)(void *);
    void *(*release_lock)(void);
    void (*take_lock)(void *);
    Scalar scalars[MOST_SCALARS];
} python;

/* Takes what is in `python`, in this order, a word each. */
EXPORT void hornbeam_layout(const void *facts) { memcpy(&python, facts, sizeof python); }

typedef struct {
    int64_t *words, *last_word;
    unsigned char *key, *last_key;
} Pack;

#define TUPLE_SUBCLASS (1UL << 26)
#define TYPE_OF(object) (*(void **)((object) + python.head - sizeof(void *)))

static int pack_array(Pack *pack, const char *object) {
    const Array *array = (const Array *)(object + python.head);
    const char *dtype = array->dtype + python.head + sizeof(void *); /* kind, type, byte order, flags, number */
    int number;
    memcpy(&number, dtype + 4, sizeof number);
    if (array->n_dimensions > MOST_DIMENSIONS || dtype[2] == '>') return 0;
    *pack->key++ = 'A';
    *pack->key++ = (unsigned char)number;
    *pack->key++ = (unsigned char)array->n_dimensions;
    *pack->key++ = (unsigned char)((array->flags & 1 ? 1 : array->flags & 2 ? 2 : 0) | (array->flags & 0x400 ? 4 : 0));
    if (number >= RECORD) { /* known by the dtype's place: Python keeps those that are in a key */
        memcpy(pack->key, &array->dtype, sizeof array->dtype);
        pack->key += sizeof array->dtype;
    }
    *pack->words++ = (int64_t)(intptr_t)array->data;
    for (int i = 0; i < array->n_dimensions; i++) *pack->words++ = array->shape[i];
    for (int i = 0; i < array->n_dimensions; i++) *pack->words++ = array->strides[i];
    return 1;
}

static int pack_scalar(Pack *pack, const char *object, void *type) {
    const char *value = object + python.head;
    for (const Scalar *scalar = python.scalars; scalar->type; scalar++) {
        if (scalar->type != type) continue;
        int64_t word = 0;
        double real;
        switch (scalar->code) {
        case 'l': case 'L': case 'd': memcpy(&word, value, 8); break;
        case 'i': word = *(const int32_t *)value; break;
        case 'I': word = *(const uint32_t *)value; break;
        case 'h': word = *(const int16_t *)value; break;
        case 'H': word = *(const uint16_t *)value; break;
        case 'b': word = *(const int8_t *)value; break;
        case 'B': case '?': word = *(const uint8_t *)value; break;
        case 'f': real = *(const float *)value; memcpy(&word, &real, 8); break;
        default: return 0;
        }
        *pack->key++ = (unsigned char)scalar->code;
        *pack->words++ = word;
        return 1;
    }
    return 0;
}

/* Writes the types of a tuple's items to the key, and their values to the words; 0: it cannot read one. */
static int pack_items(Pack *pack, const char *tuple) {
    intptr_t n_items = *(const intptr_t *)(tuple + python.head);
    char *const *items = (char *const *)(tuple + python.items);
    for (intptr_t i = 0; i < n_items; i++) {
        char *object = items[i];
        void *type = TYPE_OF(object);
        if (pack->last_key - pack->key < 16 || pack->last_word - pack->words < 2 * MOST_DIMENSIONS + 2) return 0;
        if (type == python.array) {
            if (!pack_array(pack, object)) return 0;
        } else if (type == python.integer) {
            int64_t value = python.as_integer(object);
            if (value == -1 && python.error()) {
                python.clear_error();
                return 0;
            }
            *pack->key++ = 'l';
            *pack->words++ = value;
        } else if (type == python.real) {
            *pack->key++ = 'd';
            memcpy(pack->words++, object + python.head, 8);
        } else if (object == python.none) {
            *pack->key++ = 'N';
        } else if (object == python.yes || object == python.no) {
            *pack->key++ = '?';
            *pack->words++ = object == python.yes;
        } else if (type == python.tuple || python.type_flags(type) & TUPLE_SUBCLASS) {
            *pack->key++ = '(';
            memcpy(pack->key, &type, sizeof type);
            pack->key += sizeof type;
            if (!pack_items(pack, object) || pack->key == pack->last_key) return 0;
            *pack->key++ = ')';
        } else if (!pack_scalar(pack, object, type)) {
            return 0;
        }
    }
    return 1;
}

/* Packs arguments and says how long key and words are, in two halves of a word; -1: it cannot read them. */
EXPORT int64_t hornbeam_pack(const char *arguments, int64_t *words, unsigned char *key) {
    Pack pack = {words, words + MOST_WORDS, key, key + MOST_KEY};
    if (!pack_items(&pack, arguments)) return -1;
    return (int64_t)(pack.key - key) << 32 | (pack.words - words);
}

/* Calls the kernel for a tuple of arguments, without the interpreter lock.

   known    the kernels there are, of which one is chosen by the types
   results  NULL, or room for the kernel's number and its results

   Returns 0; more: the kernel failed; -1: it has not seen such types; -2: it has, and there is no kernel. */
EXPORT int64_t hornbeam_call(const char *arguments, Known *volatile *known, int64_t *results) {
    int64_t words[MOST_WORDS];
    unsigned char key[MOST_KEY];
    Pack pack = {words, words + MOST_WORDS, key, key + MOST_KEY};
    if (!pack_items(&pack, arguments)) return -1;
    int64_t n_key = pack.key - key;
    for (const Known *one = *known; one; one = one->next) {
        if (one->n_key != n_key || memcmp(one->key, key, (size_t)n_key)) continue;
        if (!one->entry) return -2;
        if (results) results[0] = one->number;
        void *thread = python.release_lock();
        int32_t status = one->entry(words, results ? results + 1 : NULL);
        python.take_lock(thread);
        return status;
    }
    return -1;
}

/* Adds a kernel to those that hornbeam_call knows; whoever reads the list meanwhile sees it with or without. */
EXPORT int hornbeam_learn(Known *volatile *known, const unsigned char *key, int64_t n_key, Entry entry, int64_t number) {
    Known *one = malloc(sizeof *one + (size_t)n_key);
    if (!one) return 0;
    one->entry = entry;
    one->number = number;
    one->n_key = n_key;
    memcpy(one->key, key, (size_t)n_key);
    one->next = *known;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    *known = one;
    return 1;
}

/* ---- what compiled kernels call --------------------------------------------------------------------------------- */

#ifdef _WIN32
int32_t hornbeam_let_others_run(void) { return SwitchToThread(); }
int32_t hornbeam_sleep(uint32_t n) { Sleep(n); return 0; }
int _fltused = 1; /* code of Microsoft's kind asks for it where there are floats */
#else
int32_t hornbeam_let_others_run(void) { return sched_yield(); }
int32_t hornbeam_sleep(uint32_t n) { return usleep(n); }
#endif

/* Memory as Numba's code wants it: the number of users stands first, where that code counts. */
typedef struct {
    size_t n_users;
    void (*destroy)(void *, size_t, void *);
    void *destroy_info, *data;
    size_t size;
    void *allocator;
} Memory;

void *NRT_MemInfo_alloc_aligned(size_t size, uint32_t align) {
    size_t step = align < 16 ? 16 : align;
    Memory *memory = size > SIZE_MAX / 2 ? NULL : malloc(sizeof *memory + size + step);
    if (!memory) return NULL;
    uintptr_t first = (uintptr_t)(memory + 1);
    *memory = (Memory){1, NULL, NULL, (void *)((first + step - 1) / step * step), size, NULL};
    return memory;
}

void *NRT_MemInfo_alloc_safe_aligned(size_t size, uint32_t align) { return NRT_MemInfo_alloc_aligned(size, align); }
void *NRT_MemInfo_alloc(size_t size) { return NRT_MemInfo_alloc_aligned(size, 16); }
void NRT_MemInfo_call_dtor(Memory *memory) { free(memory); }
void *NRT_Allocate(size_t size) { return malloc(size); }
void NRT_Free(void *memory) { free(memory); }

/* Lets go of an array that a kernel has returned. */
EXPORT void hornbeam_release(Memory *memory) {
    if (memory && __atomic_sub_fetch(&memory->n_users, 1, __ATOMIC_ACQ_REL) == 0) free(memory);
}

/* reshape, of arrays that lie in one piece, as all do that kernels reshape; 0: it is not such a case. */
int32_t numba_attempt_nocopy_reshape(intptr_t nd, const intptr_t *shape, const intptr_t *strides, intptr_t new_nd,
                                     const intptr_t *new_shape, intptr_t *new_strides, intptr_t item, int32_t fortran) {
    intptr_t size = 1, new_size = 1, step = item;
    if (fortran) return 0;
    for (intptr_t i = nd - 1; i >= 0; i--) {
        if (shape[i] != 1 && strides[i] != size * item) return 0;
        size *= shape[i];
    }
    for (intptr_t i = new_nd - 1; i >= 0; i--) {
        new_strides[i] = step;
        step *= new_shape[i];
        new_size *= new_shape[i];
    }
    return size == new_size;
}

/* ---- the CPU ---------------------------------------------------------------------------------------------------- */

/* Which level of x86-64 the CPU has, 1 to 3; 0: it is another kind of CPU. */
EXPORT int32_t hornbeam_cpu_level(void) {
#if defined(__x86_64__) || defined(_M_X64)
    __builtin_cpu_init();
    int two = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") &&
              __builtin_cpu_supports("popcnt");
    int three = __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                __builtin_cpu_supports("bmi2");
    return two ? three ? 3 : 2 : 1;
#else
    return 0;
#endif
}
