/* SPDX-License-Identifier: Apache-2.0
 * library.c -- see library.h.
 *
 * A machine without a GPU has no libcuda.so.1, or one whose cuInit fails; the stub that comes with
 * a toolkit has the same name and returns 34 from every function.  All of these mean "no device",
 * and no other function of the library is called then.
 */
#include "plugins/nvrtc/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct {
  void *handle;
  char file[600], why[1024];
} Library;

static pthread_once_t cuda_once = PTHREAD_ONCE_INIT, compiler_once = PTHREAD_ONCE_INIT,
                      cublas_once = PTHREAD_ONCE_INIT;
static Library cuda_library, compiler_library, cublas_library;
static NvCuda cuda;
static NvCompiler compiler;
static NvCublas cublas;
static bool cuda_good, compiler_good, cublas_good;

/* -- Files ------------------------------------------------------------------------------------- */

static bool
try_file (Library *l, const char *file)
{
  l->handle = dlopen (file, RTLD_NOW | RTLD_LOCAL);
  if (l->handle)
    snprintf (l->file, sizeof l->file, "%s", file);
  return l->handle != NULL;
}

/* Tries the file that the user names in `variable`, and no other; false: none is named. */
static bool
try_named (Library *l, const char *variable)
{
  const char *file = secure_getenv (variable);
  if (!file || !*file)
    return false;
  if (file[0] != '/')
    snprintf (l->why, sizeof l->why, "%s=%.400s is no absolute path", variable, file);
  else if (!try_file (l, file))
    snprintf (l->why, sizeof l->why, "%s=%.400s cannot be opened: %.400s", variable, file,
              dlerror ());
  return true;
}

/* Visits the files in the toolkits' folders, which the loader does not search, until `visit`
 * returns true. */
static bool
try_toolkits (void *data, const char *const *names, bool (*visit) (void *data, const char *file))
{
  static const char *const variables[] = { "CUDA_HOME", "CUDA_PATH" };
  static const char *const folders[] = { "/usr/local/cuda/lib64", "/usr/local/cuda-13/lib64",
                                         "/usr/local/cuda-13.0/lib64", "/usr/local/cuda-12/lib64",
                                         "/opt/cuda/lib64" };
  char file[512];
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *home = secure_getenv (variables[i]);
    for (int k = 0; home && home[0] == '/' && names[k]; k++) {
      snprintf (file, sizeof file, "%s/lib64/%s", home, names[k]);
      if (visit (data, file))
        return true;
    }
  }
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    for (int k = 0; names[k]; k++) {
      snprintf (file, sizeof file, "%s/%s", folders[i], names[k]);
      if (visit (data, file))
        return true;
    }
  return false;
}

static bool
open_found (void *library, const char *file)
{
  return try_file (library, file);
}

/* -- The driver -------------------------------------------------------------------------------- */

static void
open_cuda (void)
{
  Library *l = &cuda_library;
  if (!try_named (l, "GRAMME_CUDA_DRIVER") && !try_file (l, "libcuda.so.1"))
    snprintf (l->why, sizeof l->why,
              "there is no CUDA driver: libcuda.so.1 cannot be opened; install NVIDIA's driver "
              "(Debian: nvidia-driver), or compile "
              "only, for a named architecture: options={\"arch\": \"sm_90\"}");
  if (!l->handle)
    return;
#define CUDA(name, parameters)                                                                     \
  cuda.name = (int (*) parameters) dlsym (l->handle, #name);                                       \
  if (!cuda.name) {                                                                                \
    snprintf (l->why, sizeof l->why,                                                               \
              "%.400s has no " #name ": the driver is too old; install a newer one", l->file);     \
    return;                                                                                        \
  }
#include "plugins/nvrtc/cuda.def"
  int result = cuda.cuInit (0);
  if (result != 0)
    snprintf (l->why, sizeof l->why, "%.400s finds no GPU: cuInit says %d%s", l->file, result,
              result == 34    ? " (it is the toolkit's stub, not a driver)"
              : result == 100 ? " (no device)"
                              : "");
  else if ((result = cuda.cuDeviceGetCount (&cuda.n_devices)) != 0 || cuda.n_devices < 1)
    snprintf (l->why, sizeof l->why, "%.400s finds no GPU: %d devices (result %d)", l->file,
              cuda.n_devices, result);
  else
    cuda_good = cuda.cuDriverGetVersion (&cuda.version) == 0;
}

const NvCuda *
nv_cuda (const char **why)
{
  pthread_once (&cuda_once, open_cuda);
  if (why)
    *why = cuda_library.why;
  return cuda_good ? &cuda : NULL;
}

int
nv_cuda_capability (const NvCuda *c, int device, int *out)
{
  enum { MAJOR = 75, MINOR = 76 };
  int major = 0, minor = 0, result = c->cuDeviceGetAttribute (&major, MAJOR, device);
  if (result == 0)
    result = c->cuDeviceGetAttribute (&minor, MINOR, device);
  *out = 10 * major + minor;
  return result;
}

const char *
nv_cuda_file (void)
{
  return cuda_library.handle ? cuda_library.file : NULL;
}

void
nv_cuda_error (char *out, size_t room, int result)
{
  const char *name = NULL, *text = NULL;
  if (cuda_good && cuda.cuGetErrorName (result, &name) == 0
      && cuda.cuGetErrorString (result, &text) == 0 && name && text)
    snprintf (out, room, "%s (%s, %d)", text, name, result);
  else
    snprintf (out, room, "error %d", result);
}

/* -- The compiler ------------------------------------------------------------------------------ */

/* Loads the second library, which NVRTC opens by its bare name.  In a folder that the loader does
 * not search (a Python package's) that works only if the library is loaded already. */
static void
open_builtins (void)
{
  char file[600];
  Dl_info info;
  /* Converts the address of a function for dladdr. */
  union {
    int (*function) (int *, int *);
    void *address;
  } own = { .function = compiler.nvrtcVersion };
  const char *name = dladdr (own.address, &info) && info.dli_fname ? info.dli_fname : "",
             *slash = strrchr (name, '/');
  if (!slash)
    return;
  snprintf (file, sizeof file, "%.*s/libnvrtc-builtins.so.%d.%d", (int) (slash - name), name,
            compiler.major, compiler.minor);
  dlopen (file, RTLD_NOW | RTLD_LOCAL);
}

/* CUDA 11.2 to 11.8 share one name; there is no plain .so.11. */
static const char *const compiler_names[] = { "libnvrtc.so.13", "libnvrtc.so.12",
                                              "libnvrtc.so.11.2", "libnvrtc.so", NULL };

static void
open_compiler (void)
{
  Library *l = &compiler_library;
  if (!try_named (l, "GRAMME_NVRTC")) {
    for (int i = 0; compiler_names[i] && !l->handle; i++)
      try_file (l, compiler_names[i]);
    if (!l->handle && !try_toolkits (l, compiler_names, open_found))
      snprintf (l->why, sizeof l->why,
                "NVRTC is missing: libnvrtc.so.13, .12, .11.2 are neither where the loader looks "
                "nor in $CUDA_HOME/lib64 or "
                "/usr/local/cuda/lib64; install it (Debian non-free: libnvrtc11.2; NVIDIA's "
                "packages: cuda-nvrtc-13-0; pip install "
                "nvidia-cuda-nvrtc) and, if it lies elsewhere, set GRAMME_NVRTC to the file");
  }
  if (!l->handle)
    return;
#define NVRTC(name, parameters)                                                                    \
  compiler.name = (int (*) parameters) dlsym (l->handle, #name);                                   \
  if (!compiler.name) {                                                                            \
    snprintf (l->why, sizeof l->why,                                                               \
              "%.400s has no " #name ": it is too old; install NVRTC 11.2 or newer", l->file);     \
    return;                                                                                        \
  }
#define NVRTC_MAYBE(name, parameters) compiler.name = (int (*) parameters) dlsym (l->handle, #name);
#include "plugins/nvrtc/nvrtc.def"
  int n = 0;
  compiler_good = compiler.nvrtcVersion (&compiler.major, &compiler.minor) == 0
                  && compiler.nvrtcGetNumSupportedArchs (&n) == 0 && n > 0
                  && n <= (int) (sizeof compiler.archs / sizeof *compiler.archs)
                  && compiler.nvrtcGetSupportedArchs (compiler.archs) == 0;
  compiler.n_archs = n;
  if (compiler_good)
    open_builtins ();
  if (!compiler_good)
    snprintf (l->why, sizeof l->why, "%.400s does not say which GPUs it compiles for", l->file);
}

const NvCompiler *
nv_compiler (const char **why)
{
  pthread_once (&compiler_once, open_compiler);
  if (why)
    *why = compiler_library.why;
  return compiler_good ? &compiler : NULL;
}

const char *
nv_compiler_file (void)
{
  return compiler_library.handle ? compiler_library.file : NULL;
}

/* -- Products ---------------------------------------------------------------------------------- */

static const char *const cublas_names[] = { "libcublasLt.so.13", "libcublasLt.so.12",
                                            "libcublasLt.so.11", "libcublasLt.so", NULL };

/* Tries the folder of the compiler: a Python package of CUDA's parts has all of them in one
 * folder. */
static void
try_beside_compiler (Library *l)
{
  char file[600];
  const char *slash = strrchr (compiler_library.file, '/');
  for (int i = 0; slash && cublas_names[i] && !l->handle; i++) {
    snprintf (file, sizeof file, "%.*s/%s", (int) (slash - compiler_library.file),
              compiler_library.file, cublas_names[i]);
    try_file (l, file);
  }
}

static void
open_cublas (void)
{
  Library *l = &cublas_library;
  nv_compiler (NULL);
  if (!try_named (l, "GRAMME_CUBLASLT")) {
    for (int i = 0; cublas_names[i] && !l->handle; i++)
      try_file (l, cublas_names[i]);
    if (!l->handle)
      try_beside_compiler (l);
    if (!l->handle && !try_toolkits (l, cublas_names, open_found))
      snprintf (l->why, sizeof l->why,
                "libcublasLt.so.13, .12, .11 are neither where the loader looks, nor beside NVRTC, "
                "nor in $CUDA_HOME/lib64 or "
                "/usr/local/cuda/lib64; install it (NVIDIA's packages: libcublas-13-0; pip install "
                "nvidia-cublas) and, if it lies "
                "elsewhere, set GRAMME_CUBLASLT to the file");
  }
  if (!l->handle)
    return;
#define CUBLAS(name, parameters)                                                                   \
  cublas.name = (int (*) parameters) dlsym (l->handle, #name);                                     \
  if (!cublas.name) {                                                                              \
    snprintf (l->why, sizeof l->why,                                                               \
              "%.400s has no " #name ": it is too old; install cuBLAS 11.4 or newer", l->file);    \
    return;                                                                                        \
  }
#include "plugins/nvrtc/cublas.def"
  cublas_good = true;
}

const NvCublas *
nv_cublas (const char **why)
{
  pthread_once (&cublas_once, open_cublas);
  if (why)
    *why = cublas_library.why;
  return cublas_good ? &cublas : NULL;
}

const char *
nv_cublas_file (void)
{
  return cublas_library.handle ? cublas_library.file : NULL;
}

/* -- Without opening the libraries ------------------------------------------------------------- */

typedef struct {
  void (*visit) (void *data, const char *file);
  void *data;
} Visitor;

static bool
visit_one (void *data, const char *file)
{
  const Visitor *v = data;
  v->visit (v->data, file);
  return false;
}

void
nv_compiler_visit (void (*visit) (void *data, const char *file), void *data)
{
  Visitor v = { visit, data };
  const char *named = secure_getenv ("GRAMME_NVRTC"), *list = secure_getenv ("LD_LIBRARY_PATH");
  char file[1024];
  if (named && *named) {
    visit (data, named);
    return;
  }
  for (const char *at = list; at && *at; at += strcspn (at, ":"), at += *at == ':')
    for (int k = 0; compiler_names[k]; k++) {
      snprintf (file, sizeof file, "%.*s/%s", (int) strcspn (at, ":"), at, compiler_names[k]);
      visit (data, file);
    }
  /* Lists the loader's other libraries; rewritten when a library is installed. */
  visit (data, "/etc/ld.so.cache");
  try_toolkits (&v, compiler_names, visit_one);
}
