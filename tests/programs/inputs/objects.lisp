;; SBCL: the native compiler at run time, big numbers, foreign memory from malloc.
(defun hash-of (text)
  (reduce (lambda (h c) (mod (+ (* h 33) (char-code c)) 4294967291)) text :initial-value 5381))

(defun fib-table (n)
  (let ((table (make-hash-table)))
    (dotimes (i n table) (setf (gethash i table) (list i (* i i) (format nil "~r" i))))))

(let ((table (fib-table 20000)) (sum 0))
  (maphash (lambda (key value) (incf sum (* key (length (third value))))) table)
  (format t "table ~a ~a~%" (hash-table-count table) sum))

(format t "compiled ~a~%"
        (funcall (compile nil '(lambda (n) (loop for i below n sum (logxor i (ash i -3))))) 200000))
(format t "factorial ~a~%"
        (hash-of (format nil "~a" (loop with f = 1 for i from 1 to 2000 do (setf f (* f i))
                                        finally (return f)))))

(let ((sum 0) (live (make-array 200 :initial-element nil)))
  (dotimes (i 60000)
    (let* ((slot (mod (* i 7919) 200)) (size (1+ (mod (* i 131) 5000))) (old (aref live slot)))
      (when old
        (incf sum (sb-alien:deref old 0))
        (sb-alien:free-alien old))
      (let ((new (sb-alien:make-alien (sb-alien:unsigned 8) size)))
        (setf (sb-alien:deref new 0) (mod i 251)
              (sb-alien:deref new (1- size)) (mod i 251)
              (aref live slot) new))))
  (loop for block across live when block do (sb-alien:free-alien block))
  (format t "foreign ~a~%" sum))
(sb-ext:exit :code 0)
