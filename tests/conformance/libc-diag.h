/* glibc's names for warnings that a test does not want: none are on. */
#define DIAG_PUSH_NEEDS_COMMENT
#define DIAG_POP_NEEDS_COMMENT
#define DIAG_PUSH_NEEDS_COMMENT_CLANG
#define DIAG_POP_NEEDS_COMMENT_CLANG
#define DIAG_IGNORE_NEEDS_COMMENT(version, option)
#define DIAG_IGNORE_NEEDS_COMMENT_GCC(version, option)
#define DIAG_IGNORE_NEEDS_COMMENT_CLANG(version, option)
#define DIAG_IGNORE_O0_NEEDS_COMMENT(version, option)
#define DIAG_IGNORE_Os_NEEDS_COMMENT(version, option)
