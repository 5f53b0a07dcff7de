"""Cases of DirectML's operators, as model files of DxDispatch: `random_descs` draws them, `contents` fills them."""
