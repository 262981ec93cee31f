/* OpenBLAS, loaded when somebody chooses it: whoever does not is neither slowed nor
 * stopped by a library that is missing, of another flavour, or short of memory. */
#include "model/kernels/gemm.h"

#include <dlfcn.h>
#include <stdbool.h>

#ifdef WEFT_DOUBLE
#define GEMM "cblas_dgemm"
#else
#define GEMM "cblas_sgemm"
#endif

enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112, WITH_OPENMP = 2 };

static void (*multiply)(int order, int of_a, int of_b, int m, int n, int k, real alpha,
                        const real *a, int lda, const real *b, int ldb, real beta,
                        real *c, int ldc);

static void nt(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
               int m, int n, int k, real alpha, real beta)
{
    multiply(ROW_MAJOR, AS_IT_IS, TRANSPOSED, m, n, k, alpha, a, (int)lda, b, (int)ldb,
             beta, c, (int)ldc);
}

static void nn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
               int m, int n, int k, real alpha, real beta)
{
    multiply(ROW_MAJOR, AS_IT_IS, AS_IT_IS, m, n, k, alpha, a, (int)lda, b, (int)ldb,
             beta, c, (int)ldc);
}

static void tn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
               int m, int n, int k, real alpha, real beta)
{
    multiply(ROW_MAJOR, TRANSPOSED, AS_IT_IS, m, n, k, alpha, a, (int)lda, b, (int)ldb,
             beta, c, (int)ldc);
}

/* The openmp flavour by its own directory, where the build knew one: what the plain name
 * means may be another. */
static void *load(void)
{
    void *lib = NULL;

#ifdef OPENBLAS
    lib = dlopen(OPENBLAS, RTLD_NOW | RTLD_LOCAL);
#endif
    return lib ? lib : dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
}

/* dlsym's answer as a function, in the way that POSIX asks for. */
static bool find(void *lib, const char *name, void *function)
{
    *(void **)function = dlsym(lib, name);
    return *(void **)function;
}

enum fail gemm_openblas(const struct gemm **by, struct why *why)
{
    static const struct gemm openblas = {"openblas", nt, nn, tn, 30, .foreign = true};
    int (*flavour)(void);
    void *lib = multiply ? NULL : load();

    *by = &openblas;
    if (multiply)
        return FAIL_NONE;
    if (!lib)
        return fail(why, FAIL_INPUT,
                    "products = openblas: no such library here (%s); install "
                    "libopenblas0-openmp, or take products = own",
                    dlerror());
    if (!find(lib, "openblas_get_parallel", &flavour) || flavour() != WITH_OPENMP ||
        !find(lib, GEMM, &multiply)) {
        multiply = NULL;
        dlclose(lib);
        return fail(why, FAIL_INPUT,
                    "products = openblas: the OpenBLAS here is not its openmp flavour; "
                    "install libopenblas0-openmp, or take products = own");
    }
    return FAIL_NONE;
}
