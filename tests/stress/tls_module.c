/* tls_module.c - a library with a variable for each thread, for dlopen_tls.c. */
extern __thread int tls_module_number;
__thread int tls_module_number;
