/* The old name of what <stdlib.h> declares of memory, on a GPU. */
#include <stdlib.h>
