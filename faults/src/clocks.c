/* The clocks of one process, which jump, stand and run at other rates: preloaded, it shows CLOCK_REALTIME, CLOCK_MONOTONIC and
   CLOCK_BOOTTIME as a file says. CLOCK_MONOTONIC_RAW, which observers read, stays true. The file is a `struct shift`. Programs
   that bring their own C library, as Go's do, don't notice. What asks the kernel's own page of functions (vDSO), past the C
   library, does: the page's function is replaced in this process, on x86-64. Elsewhere such readings stay true, and `felt` 0. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WALL, MONOTONIC, BOOTTIME, CLOCKS };

/* Times are nanoseconds. It is changed while `order` is odd. */
struct shift {
    long long order;
    long long shown; /* readings of the wall clock that were not the true time */
    long long felt;  /* readings of the other two by way of the vDSO that were not */
    long long rate;  /* by which all three are fast, in parts of a million, */
    long long since[CLOCKS]; /* since these true times */
    long long add[CLOCKS];   /* and what they were off by then */
};

static volatile struct shift *shared;

static int number(clockid_t clock) {
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE: return WALL;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE: return MONOTONIC;
    case CLOCK_BOOTTIME: return BOOTTIME;
    default: return -1;
    }
}

/* By how much that clock is ahead when it is `now`. */
static long long ahead(int clock, long long now) {
    long long order, off;
    do {
        while ((order = __atomic_load_n(&shared->order, __ATOMIC_ACQUIRE)) & 1) {}
        off = shared->add[clock] + (long long)((__int128)(now - shared->since[clock]) * shared->rate / 1000000);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (__atomic_load_n(&shared->order, __ATOMIC_RELAXED) != order);
    return off;
}

static int show(clockid_t clock, struct timespec *time, int is_vdso) {
    const long long second = 1000000000;
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    int which = number(clock);
    if (result || which < 0 || !shared) return result;
    long long now = time->tv_sec * second + time->tv_nsec;
    long long off = ahead(which, now);
    if (off) {
        now += off;
        time->tv_sec = now / second;
        time->tv_nsec = now % second;
        if (which == WALL) __atomic_fetch_add(&shared->shown, 1, __ATOMIC_RELAXED);
        else if (is_vdso) __atomic_fetch_add(&shared->felt, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) { return show(clock, time, 0); }

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return (time_t)-1;
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}

#ifdef __x86_64__
static int show_vdso(clockid_t clock, struct timespec *time) { return show(clock, time, 1); }

/* Has the vDSO's `clock_gettime` begin with a jump to ours. */
static void replace_vdso(void) {
    char *page = (char *)getauxval(AT_SYSINFO_EHDR), *base = page, *names = 0;
    if (!page) return;
    Elf64_Ehdr *head = (Elf64_Ehdr *)page;
    Elf64_Phdr *parts = (Elf64_Phdr *)(page + head->e_phoff);
    Elf64_Dyn *entry = 0;
    for (int i = 0; i < head->e_phnum; i++) {
        if (parts[i].p_type == PT_LOAD) base = page + parts[i].p_offset - parts[i].p_vaddr;
        if (parts[i].p_type == PT_DYNAMIC) entry = (Elf64_Dyn *)(page + parts[i].p_offset);
    }
    Elf64_Sym *symbols = 0;
    Elf64_Word *hash = 0;
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) symbols = (Elf64_Sym *)(base + entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB) names = base + entry->d_un.d_ptr;
        if (entry->d_tag == DT_HASH) hash = (Elf64_Word *)(base + entry->d_un.d_ptr);
    }
    for (Elf64_Word i = 0; hash && symbols && names && i < hash[1]; i++) {
        if (strcmp(names + symbols[i].st_name, "__vdso_clock_gettime")) continue;
        /* movabs rax, OURS; jmp rax */
        unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
        int (*ours)(clockid_t, struct timespec *) = show_vdso;
        memcpy(jump + 2, &ours, sizeof ours);
        /* The kernel changes all of it or nothing; what names its sections is at its end. */
        size_t size = (size_t)sysconf(_SC_PAGESIZE);
        size_t length = (head->e_shoff + (size_t)head->e_shnum * head->e_shentsize + size - 1) & ~(size - 1);
        if (mprotect(page, length, PROT_READ | PROT_WRITE | PROT_EXEC)) return;
        memcpy(base + symbols[i].st_value, jump, sizeof jump);
        mprotect(page, length, PROT_READ | PROT_EXEC);
        return;
    }
}
#else
static void replace_vdso(void) {}
#endif

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TENURE_FAULTS_CLOCKS");
    int file = path ? open(path, O_RDWR) : -1;
    if (file < 0) return;
    void *at = mmap(0, sizeof(struct shift), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED) return;
    shared = at;
    replace_vdso();
}
